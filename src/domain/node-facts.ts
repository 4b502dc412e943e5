/** Facts of the engine and its host. Read at each connect, and when the engine has reloaded its configuration. */

export interface RuntimeFacts {
  /** Docker's name, as `runc`. */
  readonly name: string;
  /**
   * What runs its containers: containerd's shim of runc with runc or a runtime made like it; that shim with
   * another program; or a containerd shim of its own, as gVisor and Kata have.
   */
  readonly kind: "runc" | "other" | "ownShim";
  /** Whether the OCI runtime can mount read-only recursively (`rro`), as far as the engine reports it. */
  readonly recursiveReadOnly: boolean;
  /** Whether it can map the ids of mounts, as far as the engine reports it. */
  readonly mappedMounts?: boolean;
}

export interface NodeFacts {
  /** As `20.10.24`. */
  readonly engineVersion: string;
  /** Minor of the API version in use: 41 for `1.41`. The major is always 1. */
  readonly apiMinor: number;
  /** The engine's own highest API version, as `1.41`. */
  readonly engineApiVersion: string;
  readonly operatingSystem: string;
  readonly kernelVersion: string;
  /** GOARCH, as `amd64`. */
  readonly architecture: string;
  readonly cgroupDriver: "cgroupfs" | "systemd" | "none";
  readonly cgroupVersion: 1 | 2;
  readonly dockerRootDir: string;
  /** `graph` keeps images below dockerRootDir; `containerd` below containerd's root. */
  readonly imageStore: "graph" | "containerd";
  readonly storageDriver: string;
  /** The engine's default log driver, as `json-file`. */
  readonly loggingDriver: string;
  readonly runtimes: readonly RuntimeFacts[];
  readonly defaultRuntime: string;
  readonly security: {
    readonly apparmor: boolean;
    readonly seccomp: boolean;
    readonly selinux: boolean;
    readonly usernsRemap: boolean;
    readonly rootless: boolean;
  };
  /** Whether containers run on while the engine does not. */
  readonly liveRestore: boolean;
  /** Whether the engine itself injects CDI devices (DeviceRequests with driver cdi). */
  readonly cdi: boolean;
  /** Directories of CDI specifications, as the engine or the convention names them. */
  readonly cdiSpecDirs: readonly string[];
  /** What the engine warns of, as `No swap limit support`, without the word WARNING. */
  readonly warnings: readonly string[];
  /** What writes the engine's packet filter rules, as `iptables` or `nftables+firewalld`; empty before Docker 29. */
  readonly firewallBackend: string;
  /** Bytes. */
  readonly totalMemory: number;
  /** Processors that containers can use. */
  readonly cpus: number;
  readonly hostName: string;
  /** Engine's unique id: another one after a reconnect means another engine. */
  readonly engineId: string;
}

/** Facts that do not change while an engine runs: by them a connect decides how to reach its files. */
const lastingFacts = [
  "engineId",
  "engineVersion",
  "apiMinor",
  "kernelVersion",
  "cgroupDriver",
  "cgroupVersion",
  "dockerRootDir",
  "imageStore",
  "storageDriver",
] as const satisfies readonly (keyof NodeFacts)[];

/** Whether the decisions of the connect still hold, as far as these facts tell. */
export function isSameEngine(one: NodeFacts, other: NodeFacts): boolean {
  return lastingFacts.every((key) => one[key] === other[key]);
}

/** Ids on the engine's host. */
export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/**
 * Who root of a container is on the host, for an engine with `userns-remap`: such an engine has a data root of
 * its own for each mapping, whose name says so (`/var/lib/docker/100000.100000`).
 */
export function remappedRoot({
  security,
  dockerRootDir,
}: Pick<NodeFacts, "dockerRootDir"> & {
  readonly security: Pick<NodeFacts["security"], "usernsRemap">;
}): Owner | undefined {
  const [, uid, gid] = /\/(\d+)\.(\d+)\/?$/.exec(security.usernsRemap ? dockerRootDir : "") ?? [];
  return uid === undefined || gid === undefined ? undefined : { uid: Number(uid), gid: Number(gid) };
}
