/** Which plays and pods of play there are at a CRI server, and which process keeps each pod. */
import { isServed } from "../../lib/unix-socket.js";
import type { PodAccess, Reports } from "../kubelet/kubelet-deps.js";
import { type PlayProcesses, processOf } from "../kubelet/pod-owner.js";
import { type Owner, type PodKey, nameOf } from "../manifests/manifest.js";
import { podUid } from "../manifests/names.js";
import { listPodRecords } from "../node/pod-record.js";
import { playHashAnnotation, playOwnerAnnotation } from "../pod-config/cri-config.js";
import { ownerPath } from "../pod-config/pod-paths.js";
import { listClaims } from "../store/play-claims.js";
import { type PlayStore, workloadName } from "../store/play-store.js";

export interface PlayedPod {
  readonly key: PodKey;
  /** See `workloadName`. */
  readonly workload: string;
  /** `none`: nothing restarts its containers. `unknown`: this host does not tell whether its process lives. */
  readonly keptBy: "supervisor" | "attached play" | "none" | "unknown";
  /** For people, such as `process 123`. Only where one keeps it. */
  readonly process?: string;
}

export interface ListedPlay {
  readonly id: string;
  /** Names of its files, as they were given. */
  readonly files: readonly string[];
  readonly namespaces: readonly string[];
  /** See `workloadName`. Also those that have no pod. */
  readonly workloads: readonly string[];
  readonly pods: readonly PlayedPod[];
}

export interface PlayListing {
  readonly isSupervisorAlive: boolean;
  /** What was left to the supervisor. */
  readonly plays: readonly ListedPlay[];
  /** Pods of attached plays, and of those that have ended. */
  readonly otherPods: readonly PlayedPod[];
}

export interface ListPlaysDeps extends Pick<PodAccess, "client" | "files" | "directories">, Reports {
  readonly store: PlayStore;
  readonly processes: PlayProcesses;
}

/** Changes nothing. What cannot be read is reported, and left out. */
export async function listPlays(deps: ListPlaysDeps, signal: AbortSignal): Promise<PlayListing> {
  const { store, report } = deps;
  const stored = await store.list(report);
  const held = (await listClaims(store.directory)).filter(({ isHeld }) => isHeld);
  const isSupervisorAlive = await isServed(store.socketPath);
  const ofSupervisor = new Set(isSupervisorAlive ? stored.flatMap(({ workloads }) => workloads) : []);
  for (const name of held.flatMap(({ workloads }) => workloads)) ofSupervisor.delete(name);
  const pods: PlayedPod[] = [];
  for (const { key, owner } of await foundPods(deps, signal)) {
    const workload = workloadName({
      namespace: key.namespace,
      ...(owner ?? { kind: "Pod", name: key.name }),
    });
    pods.push({ key, workload, ...(await processKeeping(key, ofSupervisor.has(workload), deps)) });
  }
  const plays = stored.map(({ id, files, workloads }) => ({
    id,
    files: files.map(({ name }) => name),
    namespaces: [...new Set(workloads.map((name) => name.split(" ")[0] ?? ""))],
    workloads,
    pods: pods.filter(({ workload }) => workloads.includes(workload)),
  }));
  const known = new Set(plays.flatMap((play) => play.pods));
  return { isSupervisorAlive, plays, otherPods: pods.filter((pod) => !known.has(pod)) };
}

async function processKeeping(
  key: PodKey,
  isOfSupervisor: boolean,
  { files, directories, processes }: ListPlaysDeps,
): Promise<Pick<PlayedPod, "keptBy" | "process">> {
  const playId = await files.readFile(ownerPath(directories, key), 1024);
  if (playId === undefined) return { keptBy: "none" };
  const mark = processOf(playId);
  if (mark === undefined) return { keptBy: "unknown" };
  if (!(await processes.isAlive(mark))) return { keptBy: "none" };
  const keptBy = isOfSupervisor ? "supervisor" : "attached play";
  return { keptBy, process: processes.describe(mark) };
}

/** Those on the server, and those of which only files are left; by name. */
async function foundPods(
  deps: ListPlaysDeps,
  signal: AbortSignal,
): Promise<readonly { readonly key: PodKey; readonly owner?: Owner }[]> {
  const found = new Map<string, { readonly key: PodKey; readonly owner?: Owner }>();
  for (const { metadata, annotations } of await deps.client.listPodSandboxes({}, signal)) {
    const { namespace = "", name = "", uid = "" } = metadata ?? {};
    // The uid comes from the CRI, and is part of a path.
    if (annotations[playHashAnnotation] === undefined || podUid(uid) !== undefined) continue;
    const key = { namespace, name, uid };
    const [kind = "", ownerName] = annotations[playOwnerAnnotation]?.split("/") ?? [];
    found.set(nameOf(key), { key, ...(ownerName === undefined ? {} : { owner: { kind, name: ownerName } }) });
  }
  for (const { key, owner, isOfThisServer } of await listPodRecords(deps))
    if (!found.has(nameOf(key)) && isOfThisServer)
      found.set(nameOf(key), { key, ...(owner === undefined ? {} : { owner }) });
  return [...found].sort(([left], [right]) => (left < right ? -1 : 1)).map(([, pod]) => pod);
}
