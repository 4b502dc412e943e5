/** The dependencies of the kubelet, in facets. A function names the facets that it uses. */
import type { CriClient } from "../cri/client.js";
import type { HostFiles } from "../node/files.js";
import type { MountedFiles } from "../node/mounted-files.js";
import type { NodeFacts } from "../pod-config/cri-config.js";
import type { Directories } from "../pod-config/pod-paths.js";
import type { PodServices } from "../pod-config/pod-services.js";
import type { ServerFeatures } from "../pod-config/server-features.js";
import type { Handlers } from "../probes/run-probes-and-hooks.js";
import type { BackOffTimes } from "./back-off.js";
import type { Clock } from "./clock.js";
import type { EventSink } from "./events.js";
import type { PlayProcesses } from "./pod-owner.js";
import type { NodeCredentials } from "./pull-credentials.js";

/** Observes, stops and deletes pods. */
export interface PodAccess {
  readonly client: CriClient;
  /** Files of this host. */
  readonly files: HostFiles;
  /** What containers mount. */
  readonly mounted: MountedFiles;
  readonly directories: Directories;
  readonly handlers: Handlers;
  readonly clock: Clock;
  readonly processes: PlayProcesses;
}

/** What containers are made from, beside their manifest. */
export interface ContainerSources {
  readonly features: ServerFeatures;
  readonly node: NodeFacts;
  readonly credentials: NodeCredentials;
  /** Undefined: the pods find no Services. */
  readonly services?: PodServices;
}

/** Which play keeps a pod. */
export interface Ownership {
  /** The play whose mark the pods get. */
  readonly playId: string;
}

export interface PodEvents {
  readonly event: EventSink;
}

export interface Reports {
  /** Takes a line for the user. */
  readonly report: (line: string) => void;
}

/** What one pod needs. */
export interface PodDeps extends PodAccess, ContainerSources, PodEvents {}

export interface KubeletDeps extends PodAccess, ContainerSources, Ownership, Reports {
  /** The times of containers and of pulls. */
  readonly backOff: BackOffTimes;
}
