/** The answer to `GET /containers/{id}/json`, in one shape for all API versions from 1.41 to 1.56. */
import type { Nanoseconds } from "../lib/time.js";
import type { Labels } from "./labels.js";

/** A larger description of a container or image is trimmed to its essential fields (engine/container-snapshot.ts). */
export const descriptionLimitBytes = 4 * 1024 * 1024;

export type DockerStatus = "created" | "running" | "paused" | "restarting" | "removing" | "exited" | "dead";

export interface MountSnapshot {
  readonly type: string;
  readonly source: string;
  readonly destination: string;
  readonly readOnly: boolean;
  /** Docker's word: rprivate, rshared, rslave, private, shared, slave or empty. */
  readonly propagation: string;
  readonly name: string;
}

export interface Snapshot {
  /** 64 hex digits. */
  readonly id: string;
  /** Without the leading slash. */
  readonly name: string;
  readonly labels: Labels;
  readonly created: Nanoseconds;
  readonly state: {
    readonly status: DockerStatus;
    readonly running: boolean;
    /** Process id on the engine's host; 0 when not running. */
    readonly pid: number;
    readonly exitCode: number;
    readonly oomKilled: boolean;
    readonly error: string;
    /** 0n: never. */
    readonly started: Nanoseconds;
    readonly finished: Nanoseconds;
  };
  /** Image id that the container was made from. */
  readonly imageId: string;
  /** `Config.Image`: the reference that the create request named. */
  readonly imageName: string;
  /** Length of `Path`, the program that the container starts. */
  readonly programBytes: number;
  /** `Config.User` */
  readonly user: string;
  readonly tty: boolean;
  readonly openStdin: boolean;
  readonly stdinOnce: boolean;
  /** `SIGTERM`, `15` or empty. */
  readonly stopSignal: string;
  readonly mounts: readonly MountSnapshot[];
  /** `HostConfig.Mounts` and `HostConfig.Binds` as requested, to answer recursive read-only and image mounts. */
  readonly requestedMounts: readonly RequestedMount[];
  /** Paths on the engine's host. Empty when there is none. */
  readonly logPath: string;
  /** `HostConfig.LogConfig`: the driver, as `json-file`, and its options. */
  readonly logDriver: string;
  readonly logOptions: Labels;
  readonly resolvConfPath: string;
  readonly networkMode: string;
  /** `HostConfig.PortBindings` as requested, in Docker's order. Absent when there is none, and in what is trimmed. */
  readonly portBindings?: readonly BoundPort[];
  readonly pidMode: string;
  readonly ipcMode: string;
  readonly cgroupParent: string;
  /** Docker runtime, as `runc`. */
  readonly runtime: string;
  readonly groupAdd: readonly string[];
  readonly privileged: boolean;
  readonly resources: ResourceSnapshot;
  /**
   * Properties of the systemd scope that the container was created with, from its annotations:
   * `MemoryHigh` → `uint64 1000`. Absent when there are none, and in what is trimmed.
   */
  readonly scopeProperties?: Labels;
  /** Addresses of Docker's own networks, IPv4 before IPv6; empty with network mode none, host or container. */
  readonly addresses: readonly string[];
  /** Labels of the engine's graph driver for this container (`UpperDir`, …), empty for the containerd image store. */
  readonly graphDriver: Labels;
  /** The engine's description was too large to be read as a whole: most labels are missing, and perhaps mounts. */
  readonly isTrimmed?: true;
}

export interface BoundPort {
  /** As `80/tcp`. */
  readonly port: string;
  readonly hostIp: string;
  /** A number as text, empty for one that Docker chooses. */
  readonly hostPort: string;
}

export interface RequestedMount {
  readonly type: string;
  readonly source: string;
  readonly target: string;
  readonly readOnly: boolean;
  readonly recursiveReadOnly: boolean;
  readonly propagation: string;
  readonly imageSubPath: string;
}

export interface ResourceSnapshot {
  /** Microseconds. */
  readonly cpuPeriod: number;
  readonly cpuQuota: number;
  readonly cpuShares: number;
  /** Bytes. */
  readonly memory: number;
  /** Bytes of memory and swap together; -1 unlimited. */
  readonly memorySwap: number;
  readonly cpusetCpus: string;
  readonly cpusetMems: string;
  readonly oomScoreAdj: number;
}

/** One entry of `GET /containers/json`: tells which ids need an inspect, and lists those without one. */
export interface ListedContainer {
  readonly id: string;
  readonly status: DockerStatus;
  readonly labels: Labels;
  readonly names: readonly string[];
  /** In whole seconds. */
  readonly created: Nanoseconds;
  readonly imageId: string;
  /** The reference that the create request named, or the image's id when that reference names another image now. */
  readonly imageName: string;
}

/** Its own name, not one that a legacy link gave it (`other/alias`). */
export function listedName({ names }: ListedContainer): string {
  return names.find((name) => !name.includes("/")) ?? names[0] ?? "";
}

/** The answer to `GET /images/{reference}/json`. */
export interface ImageSnapshot {
  /** `sha256:…` */
  readonly id: string;
  /** Names with tags; without `<none>:<none>` and the digests that the containerd image store lists there. */
  readonly repoTags: readonly string[];
  readonly repoDigests: readonly string[];
  /** Bytes. */
  readonly size: number;
  /** As that of a listed image, but always true of a named one on the containerd image store. */
  readonly hasRegistry: boolean;
  /** `Config.User` */
  readonly user: string;
  readonly stopSignal: string;
  readonly labels: Labels;
  readonly architecture: string;
  readonly os: string;
  readonly author: string;
  readonly created: string;
  /** The image's config object as Docker gives it, for verbose answers. */
  readonly config: Readonly<Record<string, unknown>>;
  /** `RootFS.Layers` */
  readonly layers: readonly string[];
  /** Declared volumes. */
  readonly volumes: readonly string[];
  /** Name of the graph driver, and where the layers are (`UpperDir`, …); empty for the containerd image store. */
  readonly graphDriverName: string;
  readonly graphDriver: Labels;
}

/** One entry of `GET /images/json`. */
export interface ListedImage {
  readonly id: string;
  readonly repoTags: readonly string[];
  readonly repoDigests: readonly string[];
  /** Bytes. */
  readonly size: number;
  /**
   * False when the engine knows of no registry that has it: it was built, committed, imported or loaded here,
   * and never pulled or pushed. The containerd image store tells this from API 1.54 on.
   */
  readonly hasRegistry: boolean;
}
