/** Deletes a pod: its containers, its sandboxes, its files. */
import { PodSandboxState } from "../../domain/cri.js";
import { messageOf } from "../../lib/errors.js";
import { dnsLabel, dnsSubdomain, podUid } from "../manifests/names.js";
import type { PodSpec } from "../manifests/pod-schema.js";
import {
  logDirectory,
  mountedDirectory,
  ownerPath,
  podDirectory,
  podId,
  startingPath,
} from "../pod-config/pod-paths.js";
import { pause } from "./clock.js";
import type { PodKey } from "../manifests/read-manifests.js";
import { ignoreMissing, killPod } from "./kill-containers.js";
import { type ObservedPod, podIpOf } from "../pod-rules/observed-pod.js";
import { observePod } from "./observe.js";
import { isOfThisServer, readPodRecord } from "../node/pod-record.js";
import type { PodAccess, PodEvents } from "./kubelet-deps.js";

const pollMs = 50;

export interface DeleteOptions {
  /** In place of the pod's own grace period. */
  readonly graceSeconds?: number | undefined;
  /** Keeps logs and volumes. */
  readonly keepFiles?: boolean;
  /** Of the same pod, whose sandboxes may be gone. */
  readonly otherUids?: readonly string[];
  /** The play that makes the pod again: one that kept it before leaves it to that one. */
  readonly nextOwner?: string;
}

export interface Deleted {
  /** Sandboxes of play. */
  readonly own: number;
  /** Sandboxes of other programs. */
  readonly foreign: number;
  readonly hadFiles: boolean;
  /** Directories of the pod that may be in use at another CRI server. */
  readonly kept: readonly string[];
}

/** Deletes what play made under namespace and name, whatever its uid. Can be repeated. */
export async function deletePod(
  key: PodKey,
  deps: PodAccess & PodEvents,
  signal: AbortSignal,
  options: DeleteOptions = {},
): Promise<Deleted> {
  for (const uid of [key.uid, ...(options.otherUids ?? [])])
    await untilNothingStarts({ ...key, uid }, deps, signal, options);
  const observed = await observePod(deps, key, signal);
  const own = observed.sandboxes.filter(({ playHash }) => playHash !== undefined);
  const foreign = observed.sandboxes.length - own.length;
  // The uid of the manifest may have changed since the pod was made.
  const uids = new Set([key.uid, ...(options.otherUids ?? []), ...own.map(({ uid }) => uid)]);
  let hadFiles = false;
  const kept: string[] = [];
  for (const uid of uids) {
    await deleteSandboxes({ ...key, uid }, observed, deps, signal, options);
    if (!isPartOfPath({ ...key, uid })) continue;
    if (!own.some((sandbox) => sandbox.uid === uid) && !(await isOfThisServer(uid, deps))) {
      kept.push(podDirectory(deps.directories, { uid }));
      continue;
    }
    await deps.files.removeCgroup(podId(deps.directories, { uid }));
    if (foreign > 0 || options.keepFiles === true) continue;
    if (await removePodFiles(deps, { ...key, uid })) hadFiles = true;
    deps.directories.ofOtherServers?.delete(uid); // If it is made again, then here.
  }
  if ((own.length > 0 || hadFiles) && foreign === 0) await removeLostSandboxes(key, deps, signal);
  return { own: own.length, foreign, hadFiles, kept };
}

/** The server lists a sandbox whose container another program has removed by its name alone. */
async function removeLostSandboxes(
  { namespace, name }: PodKey,
  { client }: PodAccess,
  signal: AbortSignal,
): Promise<void> {
  for (const { id, metadata, labels, state } of await client.listPodSandboxes({}, signal)) {
    const isNamed = metadata?.namespace === namespace && metadata.name === name && metadata.uid === "";
    if (!isNamed || Object.keys(labels).length > 0 || state !== PodSandboxState.SANDBOX_NOTREADY) continue;
    await ignoreMissing(client.removePodSandbox(id, signal));
  }
}

/**
 * What another play has under way for the pod does not show yet, and would be left. It loses the pod, and is waited for.
 */
async function untilNothingStarts(
  key: PodKey,
  deps: PodAccess & PodEvents,
  signal: AbortSignal,
  { nextOwner }: DeleteOptions,
): Promise<void> {
  if (!isPartOfPath(key)) return;
  const { files, directories, processes, clock } = deps;
  for (let isTold = false; ; isTold = true) {
    const marks = await files.list(startingPath(directories, key));
    const others = marks.filter((mark) => mark !== processes.own);
    const alive = await Promise.all(others.map((mark) => processes.isAlive(mark)));
    if (!alive.includes(true) || !(await isOfThisServer(key.uid, deps))) return;
    if (!isTold) await changeOwner(key, nextOwner, deps);
    await pause(pollMs, clock, signal);
    signal.throwIfAborted();
  }
}

/** Names that come from the CRI may be anything: no files are removed under such a one. */
function isPartOfPath({ namespace, name, uid }: PodKey): boolean {
  return podUid(uid) === undefined && dnsLabel(namespace) === undefined && dnsSubdomain(name) === undefined;
}

/** Stops and removes the pod's sandboxes of one uid. */
async function deleteSandboxes(
  key: PodKey,
  observed: ObservedPod,
  deps: PodAccess & PodEvents,
  signal: AbortSignal,
  options: DeleteOptions,
): Promise<void> {
  const sandboxes = observed.sandboxes.filter(
    ({ uid, playHash }) => uid === key.uid && playHash !== undefined,
  );
  if (sandboxes.length === 0) return;
  const ids = new Set(sandboxes.map(({ id }) => id));
  const containers = observed.containers.filter(({ sandboxId }) => ids.has(sandboxId));
  const spec = isPartOfPath(key) ? await keptSpec(key, deps) : undefined;
  const pod = { spec, podIp: podIpOf(spec ?? {}, observed) };
  // Before the first container ends, so that a play that is attached does not start it again.
  if (isPartOfPath(key)) await changeOwner(key, options.nextOwner, deps);
  await killPod({ ...observed, sandboxes, containers }, pod, deps, signal, options);
  for (const { id } of sandboxes) await ignoreMissing(deps.client.removePodSandbox(id, signal));
}

async function changeOwner(
  key: PodKey,
  owner: string | undefined,
  { files, directories }: PodAccess,
): Promise<void> {
  const path = ownerPath(directories, key);
  if (owner === undefined) await files.removeTree(path);
  else await files.replaceFile(path, owner, { flush: "never" });
}

/** For preStop hooks. A record that cannot be read does not keep the pod. */
async function keptSpec({ uid }: PodKey, deps: PodAccess & PodEvents): Promise<PodSpec | undefined> {
  try {
    return (await readPodRecord(uid, deps))?.pod.spec;
  } catch (error) {
    deps.event("Warning", "FailedPreStopHook", `hooks are left out: ${messageOf(error)}`);
    return undefined;
  }
}

/** play's directory for this uid proves that play made the logs, too. It is removed last: a kill leaves it. */
async function removePodFiles({ files, mounted, directories }: PodAccess, key: PodKey): Promise<boolean> {
  const own = podDirectory(directories, key);
  const isOwn = await files.exists(own);
  if (isOwn) await files.removeTree(logDirectory(directories, key));
  const mountedFiles = mountedDirectory(directories, key);
  if (mountedFiles !== own) await mounted.removeTree(mountedFiles);
  if (isOwn) await files.removeTree(own);
  return isOwn;
}
