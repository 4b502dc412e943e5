/**
 * What the shim does on the engine's host besides the Docker API. The engine may live elsewhere (Docker
 * Desktop, a remote socket, other namespaces), so each of these has an implementation for a local engine and
 * one that uses only the API or refuses; which one is decided for each job, by what is proven to be in reach.
 */
import type { NamespaceProof } from "../../lib/linux/network-namespaces.js";
import type { ErrorKind } from "../../lib/errors.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import type { Reach } from "../../domain/reach.js";
import type { Snapshot } from "../../domain/snapshot.js";

/** What the archive of a checkpoint holds beside the container's OCI specification. */
export interface CheckpointContent {
  /** `config.dump` */
  readonly config: Readonly<Record<string, unknown>>;
  /** Added to those of the OCI specification: which container of which pod it is. */
  readonly annotations: Readonly<Record<string, string>>;
}

/** A symbolic link to the engine's log file of a container. */
export interface LogLink {
  readonly path: string;
  readonly containerId: string;
}

export interface HostAccess extends HostFunctions {
  /** What of the engine's host is in reach, as far as it is proven by now. */
  readonly reach: Reach;
}

export interface HostFunctions {
  /** Rewrites resolv.conf in place: containers of the pod have its inode mounted. False when it was this already. */
  writeResolvConf(sandbox: Snapshot, content: string, signal: AbortSignal): Promise<boolean>;

  /** Undefined when the sandbox does not run or its processes are out of reach. */
  networkNamespace(sandbox: Snapshot): ProvenNamespace | undefined;
  /** The same, with its proof, which is the caller's to dispose. */
  proveNetworkNamespace(sandbox: Snapshot): (ProvenNamespace & Provable) | undefined;
  /** The same, opened: a file descriptor, which is the caller's to close. */
  openNetworkNamespace(sandbox: Snapshot): number | undefined;

  /**
   * Kills a process of a container with everything that it started (its session and its descendants), until
   * none is left. False when the process is not provably of that container, or out of reach.
   */
  killProcessTree(containerId: string, pid: number, signal: AbortSignal): Promise<boolean>;

  /** Makes `link` a symbolic link to the engine's log file of the container; replaces only an older such link. */
  linkLog(link: string, container: Snapshot, signal: AbortSignal): Promise<void>;
  /** Makes the missing link of a running container; false when its log is, or was, a file. */
  restoreLogLink(link: string, container: Snapshot, signal: AbortSignal): Promise<boolean>;
  /** Removes `link` when it is a symbolic link that `linkLog` made for that container; anything else stays. */
  unlinkLog(link: string, containerId: string): Promise<void>;
  /** Links in a pod's log directory to log files that the engine does not have any more. */
  deadLogLinks(directory: string): Promise<readonly LogLink[]>;

  /**
   * Writes cgroup files of a running container: all that can be written, then the first error. Keys are file
   * names of cgroup v2 (`memory.high`), or of the hugetlb controller for `hugepages` (`2MB` → bytes), whose
   * limits are left out where the host has no such controller. Unsupported when the cgroup is out of reach.
   */
  applyCgroup(container: Snapshot, settings: CgroupSettings, signal: AbortSignal): Promise<void>;

  /** Whether OCI runtimes can limit hugepages here. */
  limitsHugepages(): Promise<boolean>;

  /** Present values of the limits in `settings`; undefined when the cgroup is out of reach. */
  presentCgroup(container: Snapshot, settings: CgroupSettings): Promise<CgroupSettings | undefined>;

  /**
   * Makes limits properties of the container's scope, as `MemoryHigh=1000`: what systemd writes into its files
   * when it loads its units again. A failure is logged once, and not thrown.
   */
  setScopeProperties(container: Snapshot, assignments: readonly string[], signal: AbortSignal): Promise<void>;
  /**
   * Differs after each time that systemd has loaded its units again (`systemctl daemon-reload`), and perhaps
   * more often. Undefined when that cannot be told.
   */
  unitsLoaded(): Promise<string | undefined>;

  /** The directories of a running container's cgroup; undefined when they are out of reach. */
  cgroupDirectories(container: Snapshot): Promise<CgroupDirectories | undefined>;
  /** Limits of the first process; undefined if it is out of reach or not provably the container's. */
  openFileLimits(container: Snapshot): Promise<OpenFileLimits | undefined>;
  /** The directory on this host with the files that the container has written, if any. */
  writableLayer(container: Snapshot): Promise<string | undefined>;

  /**
   * What makes up directory `path` (without links, `""` for all) of an image, of whose layers these are the
   * directories, the top one first: the directory of that name in each layer, down to one that hides those
   * below by a whiteout or a file. Whether a directory is opaque is not seen. Undefined when the layers are
   * out of reach.
   */
  layerDirectories(layers: readonly string[], path: string): Promise<readonly LayerDirectory[] | undefined>;
  /**
   * Looks at paths that a container is to get from the node, for the pod with this sandbox. Such paths may be
   * on volumes that hang: that ends after 10 s, and is a problem of that path. After a problem others may be
   * missing in the result. Undefined where nothing can be looked at: only the engine checks the paths then.
   */
  findPaths(paths: PathsToFind, sandboxId: string, signal: AbortSignal): Promise<FoundPaths | undefined>;
  /** Content of a node file that a request names (seccomp profile); at most `limitBytes`. */
  readNodeFile(path: string, limitBytes: number): Promise<string>;
  /** Names of the AppArmor profiles that the kernel has loaded; undefined when that cannot be read. */
  loadedAppArmorProfiles(): Promise<ReadonlySet<string> | undefined>;
  /** Parsed CDI specifications, in the order of precedence; unreadable ones are logged. */
  readCdiSpecs(directories: readonly string[]): Promise<readonly CdiSpecDocument[]>;
  /** The directory in which the engine keeps images and writable layers, as far as it can be told. */
  imageDirectory(facts: NodeFacts): Promise<string>;
  /** The file system of `path`; undefined when that cannot be told. */
  fileSystemUsage(path: string): Promise<FileSystemUsage | undefined>;

  /**
   * Has CRIU write the state of a running container, which runs on, and archives it at `location`, whole or not
   * at all. CRIU has `timeoutMs`; `signal` ends all but its work. `unsupported` where the container's OCI
   * runtime is out of reach.
   */
  archiveCheckpoint(
    container: Snapshot,
    location: string,
    content: CheckpointContent,
    limits: { readonly signal: AbortSignal; readonly timeoutMs: number },
  ): Promise<void>;

  /**
   * Ends what a killed process of this program has left of an archive at `location`: the OCI runtime and CRIU, and
   * files beside it. A container that is frozen then runs on; `container` is undefined where nothing runs.
   */
  endCheckpoint(containerId: string, location: string, container: Snapshot | undefined): Promise<void>;
}

/** All of them absolute. */
export interface PathsToFind {
  /** Sources of mounts that stay missing when they are. */
  readonly look: readonly string[];
  /** Sources that are made as directories when missing, without following links in missing parts. */
  readonly make: readonly string[];
  /** Devices, or directories below /dev, which stand for all devices in them. */
  readonly devices: readonly string[];
}

/** Why a path of the node cannot be used: what comes behind the path in an error. */
export interface PathProblem {
  readonly kind: ErrorKind;
  readonly reason: string;
}

/** `made`: it was missing, and is a directory now. */
export type FoundMount = "present" | "made" | "missing" | PathProblem;
/** Paths of device nodes. */
export type FoundDevices = readonly string[] | PathProblem;

/** By the paths as they were given. */
export interface FoundPaths {
  readonly mounts: ReadonlyMap<string, FoundMount>;
  readonly devices: ReadonlyMap<string, FoundDevices>;
}

/** A network namespace, and what tells it from a later one at the same path. */
export interface ProvenNamespace {
  /** `/proc/<pid>/ns/net`. */
  readonly netns: string;
  readonly netnsIdentity: string;
}

/** Where the proof can be asked again. */
export interface Provable {
  readonly proof?: NamespaceProof | undefined;
}

export interface FileSystemUsage {
  /** `/dev/sda1`, or `0:38` for file systems without a device of their own. */
  readonly device: string;
  readonly usedBytes: number;
  readonly usedInodes: number;
  readonly totalBytes: number;
  readonly totalInodes: number;
  readonly freeInodes: number;
}

export interface LayerDirectory {
  readonly path: string;
  /** The same by the short name that the graph driver has given to the layer, where it has. */
  readonly shortPath: string | undefined;
}

/** Numbers of files that a process may have open (RLIMIT_NOFILE); `Infinity` for unlimited. */
export interface OpenFileLimits {
  readonly soft: number;
  readonly hard: number;
}

export interface CgroupDirectories {
  /** As /proc/<pid>/cgroup has it. */
  readonly path: string;
  /** By controller of cgroup v1 (`memory`), and by the empty string for the hierarchy of v2. */
  readonly directories: ReadonlyMap<string, string>;
}

/** One CDI specification file. */
export interface CdiSpecDocument {
  readonly path: string;
  /** Index of its directory: later directories override earlier ones. */
  readonly priority: number;
  /** Parsed JSON or YAML, not checked; undefined when it cannot be read. */
  readonly content: unknown;
}

export interface CgroupSettings {
  readonly unified: Readonly<Record<string, string>>;
  readonly hugepages: readonly { readonly pageSize: string; readonly limitBytes: bigint }[];
}

export interface HostSource {
  /** As chosen for the present engine connection. */
  readonly host: () => HostAccess;
}

/** Limits OOM scores to what the engine may set on this host. */
export interface OomScores {
  /** `wanted`, or the lowest score that containers can be given. */
  clamp(wanted: number): number;
  /**
   * Told of a container with a negative score whose start failed. True when the host turned out unable to
   * lower scores: the container must then be created again with `clamp`.
   */
  learnFromFailure(score: number, error: unknown): boolean;
}

/** `checking`: it is registered, and a container is just finding out whether it works. */
export type OciRuntimeState = "works" | "checking" | { readonly problem: string };

/** The OCI runtime in front of runc, by which containers get what Docker's API has no words for. */
export interface OciRuntime {
  /** What is known now. Begins to find out what is not. */
  state(facts: NodeFacts): OciRuntimeState;
  /** Finds out once per engine. Rejects only with the reason of `signal`. */
  find(facts: NodeFacts, signal: AbortSignal): Promise<Exclude<OciRuntimeState, "checking">>;
}
