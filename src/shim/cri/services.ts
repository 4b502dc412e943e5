/** The dependencies of the RPCs. */
import type { Call } from "../../lib/call.js";
import type { KeyedMutex } from "../../lib/sync/keyed-mutex.js";
import type { Logger } from "../../lib/log.js";
import type { Nanoseconds } from "../../lib/time.js";
import type { Answer, CriRpcs, ContainerEventResponse } from "../../domain/cri.js";
import type { ValidatedRpc, ValidRequests } from "../../domain/requests.js";
import type { DockerUlimit } from "../../domain/create-body.js";
import type { ContainerLogs } from "../ports/container-logs.js";
import type { Engine } from "../ports/engine.js";
import type { HostSource, OomScores, OciRuntime } from "../ports/host.js";
import type { NetworkPlugin } from "../ports/network-plugin.js";
import type { PodDialer } from "../ports/pod-dialer.js";
import type { LayerUsages, StatsSource } from "../ports/stats.js";
import type { StreamingServer } from "../ports/streaming.js";
import type { ContainerLimits } from "../limits/cgroup-limits.js";
import type { EngineLiveness } from "../state/engine-liveness.js";
import type { EngineState } from "../state/engine-state.js";
import type { Records } from "../state/records.js";
import type { Images } from "../images/images.js";
import type { AbandonedRequests } from "../recovery/abandoned-requests.js";

/** The events for one client. Disposing ends the subscription. */
export interface EventSubscription extends Disposable {
  /** The next event. Throws `exhausted` when this client is too slow. */
  next(signal: AbortSignal): Promise<Answer<ContainerEventResponse>>;
}

export interface ContainerEventSource {
  /** Subscribes to all events from now on. */
  subscribe(): EventSubscription;
  /** The present time, later than each returned before: kubelets compare those of events and of PodSandboxStatus. */
  timestamp(): Nanoseconds;
}

export interface ServiceSettings {
  /** Limit of each undo step and clean-up, milliseconds. */
  readonly cleanUpTimeoutMs: number;
  /** A pull without progress ends after this time, milliseconds. */
  readonly pullProgressDeadlineMs: number;
  /** Sources of mounts that are refused, not created, when missing; absolute, without `.` and `..`. */
  readonly absentMountSourcesToReject: ReadonlySet<string>;
  /** Whether a pod's status has all its addresses, or only the first one. */
  readonly allPodAddresses: boolean;
  /** Ulimits of each container. */
  readonly defaultUlimits: readonly DockerUlimit[];
  /** Prefixes of the keys of annotations that are meant for the OCI runtime. */
  readonly allowedAnnotations: readonly string[];
  /** Whether containers have labels that group them by pod. */
  readonly composeLabels?: boolean;
  /** One process of containerd's shim for all containers of a pod, where the engine can. */
  readonly oneContainerdShimPerPod: boolean;
}

export interface Node extends HostSource {
  readonly oomScores: OomScores;
  readonly limits: ContainerLimits;
  readonly ociRuntime: OciRuntime;
}

export interface Locks {
  /** One lock per pod sandbox id, or per Docker name while there is no id. */
  readonly sandboxes: KeyedMutex;
  /** One lock per container id, or per Docker name while there is no id. */
  readonly containers: KeyedMutex;
}

/** For exec, attach and port-forward. */
export interface Streaming {
  readonly server: StreamingServer;
  /** As chosen for the present engine connection. */
  readonly podDialer: () => PodDialer;
}

export interface Stats {
  /** As chosen for the present engine connection. */
  readonly source: () => StatsSource;
  readonly layers: LayerUsages;
}

export interface Services {
  readonly engine: Engine;
  readonly engineLiveness: EngineLiveness;
  readonly state: EngineState;
  readonly records: Records;
  readonly images: Images;
  readonly network: NetworkPlugin;
  readonly node: Node;
  readonly logs: ContainerLogs;
  readonly stats: Stats;
  readonly streaming: Streaming;
  readonly events: ContainerEventSource;
  readonly locks: Locks;
  readonly abandonedRequests: AbandonedRequests;
  readonly settings: ServiceSettings;
  readonly log: Logger;
}

/** An RPC with one answer. */
export type Handler<Rpc extends ValidatedRpc> = (
  request: ValidRequests[Rpc],
  services: Services,
  call: Call,
) => Promise<Answer<CriRpcs[Rpc]["response"]>>;
