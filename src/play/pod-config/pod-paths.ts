/** Paths of a pod's files on the node. */
import { createHash } from "node:crypto";
import { posix } from "node:path";
import { claimVolume, podsVolume } from "./volume-names.js";
import type { PodKey } from "../manifests/read-manifests.js";

/** Absolute paths of directories. */
export interface Directories {
  /** Volumes and other files of the pods, one directory each. */
  readonly state: string;
  /** As the kubelet's `/var/log/pods`. Undefined when the CRI server sees no files of this host. */
  readonly logs: string | undefined;
  /** Where the engine's volumes are on its host, when it sees no files of this host. */
  readonly engineVolumes?: string;
  /** Tells pods of this CRI server from those of another one. Undefined for the server that needs no name. */
  readonly server?: string;
  /** `serverId` of this CRI server, where the directories may also have pods of others, as once all had. */
  readonly sharedBy?: string;
  /** By uid: of pods that a play at another socket has made. See `noteServersOfPods`. */
  readonly ofOtherServers?: Map<string, Directories>;
  /** Where `claims.d` is, when it is not in `state`: servers of one host have the same claims. */
  readonly claims?: string;
  /** Directory of `seccompProfile.localhostProfile`; the kubelet's is `/var/lib/kubelet/seccomp`. */
  readonly seccomp: string;
}

const idLength = 12;

export const defaultDirectories: Directories = {
  state: "/var/lib/dockershim/play",
  logs: "/var/log/pods",
  seccomp: "/var/lib/kubelet/seccomp",
};

/** The socket, without what may be written in several ways. `endpoint`: `unix:///PATH`, or the path alone. */
export function socketOf(endpoint: string): string {
  return endpoint.replace(/^unix:\/\//, "").replace(/^\/var\/run\//, "/run/");
}

/** The name of a CRI server in paths. */
export function serverId(endpoint: string): string {
  return idOf(socketOf(endpoint));
}

function idOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, idLength);
}

/** For pods of a CRI server beside the default one: pods of two servers may have one name and uid. */
export function serverDirectories(directories: Directories, endpoint: string): Directories {
  return directoriesOf(directories, serverId(endpoint));
}

function directoriesOf(directories: Directories, server: string): Directories {
  return {
    ...directories,
    state: posix.join(serversPath(directories), server),
    claims: directories.state,
    server,
  };
}

/** Takes from the sandbox of a pod where its files are. `server`: that by which it was made, if known. */
export function noteServerOfPod(directories: Directories, uid: string, server: string | undefined): void {
  const { ofOtherServers, server: own, claims, sharedBy = own, ...rest } = directories;
  if (ofOtherServers === undefined || (server !== undefined && !/^[0-9a-f]{12}$/.test(server))) return;
  const base = { ...rest, state: claims ?? rest.state };
  if (server === own) ofOtherServers.delete(uid);
  else if (server !== undefined) ofOtherServers.set(uid, directoriesOf(base, server));
  else ofOtherServers.set(uid, sharedBy === undefined ? base : { ...base, sharedBy });
}

/** Those of the pod. */
export function directoriesOfPod(directories: Directories, { uid }: Pick<PodKey, "uid">): Directories {
  return directories.ofOtherServers?.get(uid) ?? directories;
}

/** What no pod of another server of this host has. A uid has no dot. */
export function podId(directories: Directories, key: Pick<PodKey, "uid">): string {
  const { server } = directoriesOfPod(directories, key);
  return server === undefined ? key.uid : `${key.uid}.${server}`;
}

/** The directories of other sockets than the default one. */
export function serversPath({ state }: Pick<Directories, "state">): string {
  return posix.join(state, "servers.d");
}

/** The directory of all remote engines. It is beside the directories of pods, which have the names of uids: a uid has no dot. */
export function enginesPath({ state }: Pick<Directories, "state">): string {
  return posix.join(state, "engines.d");
}

/** For pods on an engine that sees no files of this host: pods of two engines may have one name and uid. */
export function remoteDirectories(directories: Directories, engineId: string): Directories {
  return { ...directories, state: posix.join(enginesPath(directories), idOf(engineId)) };
}

export function podDirectory(directories: Directories, key: Pick<PodKey, "uid">): string {
  return posix.join(directoriesOfPod(directories, key).state, key.uid);
}

/** What the pod's containers mount, on the engine's host. */
export function mountedDirectory(directories: Directories, key: Pick<PodKey, "uid">): string {
  const { engineVolumes } = directories;
  if (engineVolumes === undefined) return podDirectory(directories, key);
  return posix.join(engineVolumes, podsVolume, "_data", key.uid);
}

/** A volume of the pod, by its kind, such as `empty-dir`. */
export function volumePath(directories: Directories, key: PodKey, kind: string, volume: string): string {
  return posix.join(mountedDirectory(directories, key), "volumes", kind, volume);
}

/** Beside the directories of pods, which have the names of uids: a uid has no dot. */
export function claimsPath(directories: Directories): string {
  return posix.join(directories.claims ?? directories.state, "claims.d");
}

/** The data of a PersistentVolumeClaim, which outlives its pods. */
export function claimPath(directories: Directories, namespace: string, claim: string): string {
  const { engineVolumes } = directories;
  if (engineVolumes !== undefined) return posix.join(engineVolumes, claimVolume(namespace, claim), "_data");
  return posix.join(claimsPath(directories), namespace, claim);
}

/** What play knows of a pod that it keeps. */
export function recordPath(directories: Directories, key: Pick<PodKey, "uid">): string {
  return posix.join(podDirectory(directories, key), "pod.json");
}

/** Why play has ended the pod. */
export function endPath(directories: Directories, key: Pick<PodKey, "uid">): string {
  return posix.join(podDirectory(directories, key), "end.json");
}

/** Names the play that keeps the pod. */
export function ownerPath(directories: Directories, key: Pick<PodKey, "uid">): string {
  return posix.join(podDirectory(directories, key), "owner");
}

/** Has the mark of the process that starts something of the pod at the moment. */
export function startingPath(directories: Directories, key: Pick<PodKey, "uid">): string {
  return posix.join(podDirectory(directories, key), "starting");
}

/** The file that is mounted as /etc/hosts. */
export function hostsPath(directories: Directories, key: PodKey): string {
  return posix.join(mountedDirectory(directories, key), "etc-hosts");
}

/** The file that is mounted as the container's termination message file. */
export function terminationMessageFile(
  directories: Directories,
  key: PodKey,
  container: string,
  attempt: number,
): string {
  return posix.join(
    mountedDirectory(directories, key),
    "containers",
    container,
    `termination-message-${attempt}`,
  );
}

/** As the kubelet's: `<logs>/<namespace>_<name>_<uid>`. See `podId`. */
export function logDirectory(directories: Directories, key: PodKey): string {
  if (directories.logs === undefined) return posix.join(mountedDirectory(directories, key), "logs");
  return posix.join(directories.logs, [key.namespace, key.name, podId(directories, key)].join("_"));
}

/** Relative to the log directory, as the kubelet's. */
export function logPath(container: string, attempt: number): string {
  return posix.join(container, `${attempt}.log`);
}
