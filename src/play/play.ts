/** Brings all pods of the manifests up, shows them, or removes them. */
import { isKind, messageOf } from "../shim/lib/errors.js";
import type { Logger } from "../shim/lib/log.js";
import { Rollback } from "../shim/lib/rollback.js";
import type { CriClient } from "./client.js";
import { defaultGracePeriodSeconds } from "./containers/cri-config.js";
import { podIps } from "./containers/create-container.js";
import type { Manifest, PodKey } from "./manifests/read-manifests.js";
import { type ObservedPod, newestSandbox } from "./kubelet/next-step.js";
import { podUid } from "./manifests/names.js";
import { observePod } from "./kubelet/observe.js";
import { podDirectory } from "./containers/pod-files.js";
import { type PodState, formatTable, podRow, podState, tableHeader } from "./view/pod-view.js";
import { type RunnerDeps, playPod } from "./kubelet/runner.js";
import { removePodFiles, removeSandbox } from "./kubelet/teardown.js";

/** An undo may wait for the grace period of the pod's containers, and then for the engine. */
const undoMarginMs = 120_000;

/**
 * Brings up the pods, one after the other. When one fails, removes everything that this run has made, for all
 * pods, unless `keep`.
 */
export async function playUp(
  manifests: readonly Manifest[],
  deps: RunnerDeps,
  options: { readonly keep: boolean },
  signal: AbortSignal,
): Promise<void> {
  const graces = manifests.map(
    ({ pod }) => pod.spec.terminationGracePeriodSeconds ?? defaultGracePeriodSeconds,
  );
  await using rollback = new Rollback(undoLog(deps.report), Math.max(...graces) * 1000 + undoMarginMs);
  try {
    for (const manifest of manifests) {
      const { alreadyThere, observed } = await playPod(manifest, deps, rollback, signal);
      const { namespace, name } = manifest.key;
      if (alreadyThere)
        deps.report(`${namespace}/${name}: already ${describeState(podState(manifest, observed))}`);
    }
  } catch (error) {
    if (!rollback.isEmpty) {
      deps.report(
        options.keep ? "failed; what was made is kept (--keep)" : "failed; removing what this run has made",
      );
    }
    if (options.keep) rollback.commit();
    throw error;
  }
  rollback.commit();
}

/** Prints the table and returns the states in the order of `manifests`. */
export async function showPods(
  manifests: readonly Manifest[],
  client: CriClient,
  print: (text: string) => void,
  signal: AbortSignal,
): Promise<readonly PodState[]> {
  const rows: (readonly string[])[] = [tableHeader];
  const states: PodState[] = [];
  for (const manifest of manifests) {
    const observed = await observePod(client, manifest.key, signal);
    rows.push(podRow(manifest, observed, await ipsOf(observed, client, signal)));
    states.push(podState(manifest, observed));
  }
  print(formatTable(rows));
  return states;
}

async function ipsOf(
  { sandboxes }: ObservedPod,
  client: CriClient,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const newest = newestSandbox(sandboxes);
  if (newest === undefined) return [];
  try {
    return podIps(await client.podSandboxStatus(newest.id, signal));
  } catch (error) {
    if (isKind(error, "notFound")) return []; // Removed since it was listed.
    throw error;
  }
}

/**
 * Removes the pods, in reverse order, with the data of their volumes and their logs. Keeps pods of other
 * programs.
 */
export async function playDown(
  pods: readonly { readonly source: string; readonly key: PodKey }[],
  deps: Pick<RunnerDeps, "client" | "files" | "directories" | "report">,
  signal: AbortSignal,
): Promise<{ readonly failed: number }> {
  const { client, files, directories, report } = deps;
  let failed = 0;
  for (const { key } of [...pods].reverse()) {
    const pod = `${key.namespace}/${key.name}`;
    try {
      const { sandboxes } = await observePod(client, key, signal);
      const own = sandboxes.filter(({ playHash }) => playHash !== undefined);
      for (const { id } of own) await removeSandbox(client, id, signal);
      if (own.length < sandboxes.length) {
        report(`${pod}: not removed, because play did not make it`);
        continue;
      }
      // Also files of an earlier uid, because the manifest's uid may have changed.
      const uids = new Set([
        key.uid,
        ...own.map(({ uid }) => uid).filter((uid) => podUid(uid) === undefined),
      ]);
      for (const uid of uids) {
        // play's directory for this uid proves that play made the logs.
        const isOurs = await files.exists(podDirectory(directories, { ...key, uid }));
        if (isOurs) await removePodFiles(files, directories, { ...key, uid });
      }
      report(own.length === 0 ? `${pod}: not there` : `${pod}: removed`);
    } catch (error) {
      if (signal.aborted) throw error;
      failed += 1;
      report(`${pod}: cannot be removed: ${messageOf(error)}`);
    }
  }
  return { failed };
}

function describeState(state: PodState): string {
  return state === "Running" ? "running" : `there (${state})`;
}

/** The log of the rollback, as lines for the user. */
function undoLog(report: (line: string) => void): Pick<Logger, "debug" | "error"> {
  return {
    debug: () => undefined,
    error: (...args: unknown[]) => {
      const fields: unknown = args[0];
      const { step, err } = (typeof fields === "object" ? fields : {}) as {
        readonly step?: string;
        readonly err?: string;
      };
      report(`cannot ${step ?? "undo a step"}: ${err ?? ""}; remove it with "play --down"`);
    },
  };
}
