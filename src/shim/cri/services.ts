/** Everything that RPCs act on. Each RPC names the parts that it uses with Pick, so its signature names its effects. */
import type { KeyedMutex } from "../lib/sync/keyed-mutex.js";
import type { Logger } from "../lib/log.js";
import type { Nanoseconds } from "../lib/time.js";
import type { Answer, ContainerEventResponse } from "../domain/cri.js";
import type { DockerUlimit } from "../domain/create-body.js";
import type { CheckpointStore } from "../ports/checkpoint-store.js";
import type { ContainerLogs } from "../ports/container-logs.js";
import type { Engine } from "../ports/engine.js";
import type { HostAccess } from "../ports/host.js";
import type { NetworkPlugin } from "../ports/network-plugin.js";
import type { PodDialer } from "../ports/pod-dialer.js";
import type { LayerUsages, StatsSource } from "../ports/stats.js";
import type { StreamingServer } from "../ports/streaming.js";
import type { ContainerRecords } from "../state/container-records.js";
import type { EngineLink } from "../state/engine-link.js";
import type { ImageCache } from "../images/image-cache.js";
import type { ContainerLimits } from "../limits/cgroup-limits.js";
import type { ImagePins } from "../images/image-pins.js";
import type { ImageUserReader } from "../images/image-user-reader.js";
import type { ImageVolumes } from "../images/image-volumes.js";
import type { ScratchContainers } from "../images/scratch-containers.js";
import type { AbandonedRequests } from "../recovery/abandoned-requests.js";
import type { PodRecords } from "../state/pod-records.js";
import type { ReadModel } from "../state/read-model.js";
import type { StateSync } from "../state/state-sync.js";

/** The pause image, as src/shim/pause provides it. */
export interface PauseImageSource {
  /** The reference to create sandboxes from; pulls or loads it when it is absent. */
  ensure(signal: AbortSignal): Promise<string>;
  /** The engine turned out not to have it: ask again next time. */
  invalidate(): void;
  /** Whether one of an image's names is the pause image's. */
  isPinned(names: readonly string[]): boolean;
  /** As configured, for verbose Status. */
  readonly reference: string;
}

/** Limits OOM scores to what the engine may set on this host. */
export interface OomScores {
  /** `wanted`, or the lowest score that containers can be given. */
  clamp(wanted: number): number;
  /**
   * Told of a container with a negative score whose start failed. True when the host turned out unable to lower scores
   * and the container is to be made again with `clamp`.
   */
  learnFromFailure(score: number, error: unknown): boolean;
}

/** One client's view of the events; disposing ends it. */
export interface EventSubscription extends Disposable {
  /** The next event. `exhausted` when this client has fallen behind. */
  next(signal: AbortSignal): Promise<Answer<ContainerEventResponse>>;
}

export interface ContainerEventSource {
  /** Everything that happens from now on. */
  subscribe(): EventSubscription;
  /**
   * The present, later than any time that this gave before: kubelets compare the times of events and of
   * PodSandboxStatus to tell which of them is the newer one.
   */
  timestamp(): Nanoseconds;
}

export interface ServiceSettings {
  /** Limit of each undo step and clean-up, milliseconds. */
  readonly cleanUpTimeoutMs: number;
  /** A pull that makes no progress for so long is given up, milliseconds. */
  readonly pullProgressDeadlineMs: number;
  /** Sources of mounts that are refused when they are missing, and not made; absolute, without `.` and `..`. */
  readonly absentMountSourcesToReject: ReadonlySet<string>;
  /** Whether a pod's status has all its addresses, or only the first. */
  readonly allPodAddresses: boolean;
  /** Of each container. */
  readonly defaultUlimits: readonly DockerUlimit[];
  /** Prefixes of the keys of annotations that are meant for the OCI runtime. */
  readonly allowedAnnotations: readonly string[];
}

export interface Services {
  readonly engine: Engine;
  readonly link: EngineLink;
  readonly model: ReadModel;
  readonly sync: Pick<StateSync, "refresh">;
  readonly podRecords: PodRecords;
  readonly containerRecords: ContainerRecords;
  readonly checkpoints: CheckpointStore;
  readonly network: NetworkPlugin;
  readonly logs: ContainerLogs;
  /** As chosen for the present engine connection. */
  readonly host: () => HostAccess;
  /** As chosen for the present engine connection. */
  readonly podDialer: () => PodDialer;
  readonly streaming: StreamingServer;
  readonly stats: () => StatsSource;
  readonly layers: LayerUsages;
  readonly pauseImages: PauseImageSource;
  readonly oomScores: OomScores;
  readonly images: ImageCache;
  readonly imagePins: ImagePins;
  readonly imageUsers: ImageUserReader;
  readonly imageVolumes: ImageVolumes;
  readonly scratch: ScratchContainers;
  readonly events: ContainerEventSource;
  readonly abandonedRequests: AbandonedRequests;
  readonly limits: ContainerLimits;
  /** One lock per pod sandbox id, or per Docker name while there is no id. */
  readonly sandboxLocks: KeyedMutex;
  /** One lock per container id, or per Docker name while there is no id. */
  readonly containerLocks: KeyedMutex;
  /** One lock per image id. */
  readonly imageLocks: KeyedMutex;
  readonly settings: ServiceSettings;
  readonly log: Logger;
}
