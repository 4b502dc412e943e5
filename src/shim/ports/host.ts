/**
 * What the shim does on the engine's host besides the Docker API. The engine may live elsewhere (Docker Desktop, a
 * remote socket, other namespaces), so each of these has an implementation for a local engine and one that uses only
 * the API or refuses; which one is decided once per engine connection.
 */
import type { Snapshot } from "../domain/snapshot.js";

export interface HostAccess {
  /** Whether processes and files of the engine's host are ours to reach. */
  readonly local: boolean;

  /** Rewrites the sandbox's resolv.conf in place, keeping its inode: containers of the pod have it bind-mounted. */
  writeResolvConf(sandbox: Snapshot, content: string, signal: AbortSignal): Promise<void>;

  /** `/proc/<pid>/ns/net`; undefined when the sandbox does not run or its processes are out of reach. */
  networkNamespace(sandbox: Snapshot): string | undefined;

  /**
   * Kills a process of a container with everything that it started (its session and its descendants), until none is
   * left. False when the process is not provably of that container, or out of reach.
   */
  killProcessTree(containerId: string, pid: number, signal: AbortSignal): Promise<boolean>;

  /** Makes `link` a symbolic link to the engine's log file of the container; replaces only an older such link. */
  linkLog(link: string, container: Snapshot, signal: AbortSignal): Promise<void>;
  /** Removes `link` when it is a symbolic link that `linkLog` made; anything else stays. */
  unlinkLog(link: string): Promise<void>;

  /**
   * Writes cgroup files of a running container. Keys are file names of cgroup v2 (`memory.high`), or of the hugetlb
   * controller for `hugepages` (`2MB` → bytes). Unsupported when the cgroup is out of reach.
   */
  applyCgroup(container: Snapshot, settings: CgroupSettings, signal: AbortSignal): Promise<void>;

  /** Undefined: no such path. Used before binding it into a container. */
  statPath(path: string): Promise<"file" | "directory" | "other" | undefined>;
  /** Content of a node file that a request names (seccomp profile); at most `limitBytes`. */
  readNodeFile(path: string, limitBytes: number): Promise<string>;
  /** Names of the AppArmor profiles that the kernel has loaded; undefined when that cannot be read. */
  loadedAppArmorProfiles(): Promise<ReadonlySet<string> | undefined>;
  /** Device nodes for a host path: itself, or for a directory below /dev every device in it. */
  expandDevice(hostPath: string): Promise<readonly string[]>;
  /** Parsed CDI specifications of the node, in the order of their precedence; unreadable ones are logged and left out. */
  readCdiSpecs(directories: readonly string[]): Promise<readonly CdiSpecDocument[]>;
  /** Bytes and inodes in use below or on the file system of `path`. */
  fileSystemUsage(
    path: string,
  ): Promise<{ readonly usedBytes: number; readonly usedInodes: number } | undefined>;
}

/** One CDI specification file. */
export interface CdiSpecDocument {
  readonly path: string;
  /** Index of its directory: later directories override earlier ones. */
  readonly priority: number;
  /** Parsed JSON or YAML, not checked. */
  readonly content: unknown;
}

export interface CgroupSettings {
  readonly unified: Readonly<Record<string, string>>;
  readonly hugepages: readonly { readonly pageSize: string; readonly limitBytes: bigint }[];
}
