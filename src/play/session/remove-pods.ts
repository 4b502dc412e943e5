/** Removes what play has made (`play --down`). */
import { messageOf } from "../../lib/errors.js";
import { type DeleteOptions, deletePod } from "../kubelet/delete-pod.js";
import type { EventSink } from "../kubelet/events.js";
import type { PodAccess, Reports } from "../kubelet/kubelet-deps.js";
import { listPodRecords } from "../node/pod-record.js";
import { type Manifest, type PodKey, nameOf } from "../manifests/manifest.js";
import type { ManifestFile } from "../manifests/documents.js";
import { readRemoval } from "../manifests/read-manifests.js";
import type { Removal } from "../manifests/workloads.js";
import { playHashAnnotation, playOwnerAnnotation } from "../pod-config/cri-config.js";
import { holdClaim } from "../store/play-claims.js";
import { type PlayStore, workloadName } from "../store/play-store.js";

type Owned = Removal["owners"][number];

export interface PodToRemove {
  readonly source: string;
  readonly key: PodKey;
  /** See `workloadName`. */
  readonly workload: string;
  /** Under which play has files of it, too. */
  readonly otherUids: readonly string[];
}

/** Pods of `removal`, and all that play has made for its workloads. `missing`: workloads without any. */
export async function podsToRemove(
  removal: Pick<Removal, "pods" | "owners">,
  deps: Pick<PodAccess, "client" | "files" | "directories"> & Reports,
  signal: AbortSignal,
): Promise<{ readonly pods: readonly PodToRemove[]; readonly missing: readonly Owned[] }> {
  const owners = new Map(removal.owners.map((owner) => [workloadName(owner), owner]));
  const found = new Map<string, PodToRemove>();
  const present = new Set<Owned>();
  const add = ({ source, key, workload }: Omit<PodToRemove, "otherUids">): void => {
    const before = found.get(nameOf(key));
    const pod = before ?? { source, key, otherUids: [] };
    const otherUids = key.uid === pod.key.uid ? pod.otherUids : [...pod.otherUids, key.uid];
    found.set(nameOf(key), { ...pod, workload, otherUids });
  };
  for (const pod of removal.pods) add({ ...pod, workload: workloadName({ ...pod.key, kind: "Pod" }) });
  const addOwned = (key: PodKey, kindAndName = ""): void => {
    const owner = owners.get(`${key.namespace} ${kindAndName}`);
    if (owner === undefined) return;
    present.add(owner);
    add({ source: owner.source, key, workload: workloadName(owner) });
  };
  const listed = owners.size === 0 ? [] : await deps.client.listPodSandboxes({}, signal);
  for (const { metadata, annotations } of listed) {
    const { namespace = "", name = "", uid = "" } = metadata ?? {};
    if (annotations[playHashAnnotation] !== undefined)
      addOwned({ namespace, name, uid }, annotations[playOwnerAnnotation]);
  }
  const isAsked = owners.size > 0 || removal.pods.length > 0;
  for (const { source, key, owner, isOfThisServer } of isAsked ? await listPodRecords(deps) : []) {
    if (!isOfThisServer) continue;
    const { namespace, name } = key;
    const workload = workloadName({ namespace, ...(owner ?? { kind: "Pod", name }) });
    if (found.has(nameOf(key))) add({ source, key, workload });
    if (owner !== undefined) addOwned(key, `${owner.kind}/${owner.name}`);
  }
  return { pods: [...found.values()], missing: removal.owners.filter((owner) => !present.has(owner)) };
}

/** A removal that is faster says nothing on its way. */
const quietMs = 3000;

/** With volumes and logs, no pods of other programs. `left`: not removed, because `signal` has aborted. */
export async function removePods<T extends Pick<PodToRemove, "key"> & Partial<PodToRemove>>(
  pods: readonly T[],
  deps: PodAccess & Reports,
  signal: AbortSignal,
  { graceSeconds }: Pick<DeleteOptions, "graceSeconds"> = {},
): Promise<{ readonly failed: number; readonly left: readonly T[] }> {
  const left: T[] = [];
  const failures = await Promise.all(
    pods.map(async (one) => {
      const { key, otherUids = [] } = one;
      const pod = nameOf(key);
      const stopping: string[] = [];
      const event: EventSink = (_type, reason, _message, container = "") => {
        if (reason === "Killing") stopping.push(container);
      };
      // Grace periods may be long.
      const cancel = deps.clock.after(quietMs, () => {
        if (stopping.length > 0) deps.report(`${pod}: waiting for the end of ${stopping.join(", ")}`);
      });
      try {
        const options = { otherUids, graceSeconds };
        const { own, foreign, hadFiles, kept } = await deletePod(key, { ...deps, event }, signal, options);
        if (foreign > 0) {
          deps.report(`${pod}: not removed, because play did not make it`);
          return 1;
        }
        if (kept.length > 0) {
          const why = "its containers are gone, or at another CRI server";
          deps.report(`${pod}: ${own > 0 ? "removed, but not" : "not removed:"} ${kept.join(" ")}: ${why}`);
          return 1;
        }
        if (own > 0) deps.report(`${pod}: removed`);
        else deps.report(hadFiles ? `${pod}: removed; its containers were gone` : `${pod}: not there`);
        return 0;
      } catch (error) {
        if (signal.aborted) left.push(one);
        else deps.report(`${pod}: cannot be removed: ${messageOf(error)}`);
        return 1;
      } finally {
        cancel();
      }
    }),
  );
  if (left.length > 0) deps.report(`interrupted; not removed: ${left.map(keyName).join(", ")}`);
  return { failed: failures.filter((count) => count > 0).length, left };
}

/**
 * The supervisor leaves the workloads `names` alone while `work` removes them. It has those again of which something is
 * left, and all when `work` fails or this process is killed; from the others it has nothing any more.
 */
export async function takenFromSupervisor<
  T extends { readonly left: readonly Pick<PodToRemove, "workload">[] },
>(
  store: PlayStore,
  names: ReadonlySet<string>,
  report: (line: string) => void,
  work: () => Promise<T>,
): Promise<T> {
  const stored = await store.list(report);
  const isKept = stored.some(({ workloads }) => workloads.some((name) => names.has(name)));
  const claim = isKept ? await holdClaim(store.directory, names) : undefined;
  let left = names;
  try {
    const result = await work();
    left = new Set(result.left.map(({ workload }) => workload));
    // Also what an attached play has stored meanwhile.
    await store.release(new Set([...names].filter((name) => !left.has(name))), () => undefined);
    return result;
  } finally {
    if (left.size === 0) await claim?.release();
    else if (claim !== undefined) {
      report(`the supervisor goes on with ${[...left].join(", ")}`);
      await claim.abandon();
    }
  }
}

/** Removes pods of the files' workloads that had more replicas. `pods`: what the files ask for now. */
export async function removeSurplus(
  texts: readonly ManifestFile[],
  pods: readonly Pick<Manifest, "key" | "update">[],
  deps: PodAccess & Reports,
  signal: AbortSignal,
): Promise<{ readonly failed: number }> {
  const { owners } = await readRemoval(texts);
  const counted = owners.filter(({ kind }) => kind !== "Job" && kind !== "CronJob");
  const { pods: there } = await podsToRemove({ pods: [], owners: counted }, deps, signal);
  // Those of maxSurge are removed when the change of the workload is over.
  const wanted = new Set(pods.flatMap(({ key, update }) => [{ key }, ...(update?.surge ?? [])].map(keyName)));
  const surplus = there.filter((pod) => !wanted.has(keyName(pod)));
  const { failed, left } = await removePods(surplus, deps, signal);
  if (left.length > 0) signal.throwIfAborted();
  return { failed };
}

function keyName({ key }: Pick<PodToRemove, "key">): string {
  return nameOf(key);
}
