/** The status of a pod, with the fields of Kubernetes' v1 PodStatus. */

export type Phase = "Pending" | "Running" | "Succeeded" | "Failed";

export interface Waiting {
  /** `CrashLoopBackOff`, `ErrImagePull`, `ContainerCreating` … */
  readonly reason: string;
  readonly message?: string;
}

export interface Terminated {
  readonly exitCode: number;
  readonly reason: string;
  readonly message?: string;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  readonly finishedAt: number;
  readonly containerID: string;
}

/** Exactly one of them is there. */
export interface ContainerStateNow {
  readonly waiting?: Waiting;
  readonly running?: { readonly startedAt: number };
  readonly terminated?: Terminated;
}

export interface ContainerStatusNow {
  readonly name: string;
  /** Empty before the creation. */
  readonly containerID: string;
  readonly image: string;
  readonly imageID: string;
  readonly restartCount: number;
  readonly state: ContainerStateNow;
  readonly lastState: ContainerStateNow;
  readonly started: boolean;
  readonly ready: boolean;
}

export interface PodStatus {
  readonly phase: Phase;
  /** `DeadlineExceeded` */
  readonly reason?: string;
  readonly message?: string;
  readonly conditions: readonly Condition[];
  readonly podIPs: readonly string[];
  /** Milliseconds since 1970. */
  readonly startTime: number;
  readonly initContainerStatuses: readonly ContainerStatusNow[];
  readonly containerStatuses: readonly ContainerStatusNow[];
  readonly ephemeralContainerStatuses: readonly ContainerStatusNow[];
}

export interface Condition {
  readonly type: "PodReadyToStartContainers" | "Initialized" | "Ready" | "ContainersReady" | "PodScheduled";
  readonly status: "True" | "False";
  readonly reason?: string;
  readonly message?: string;
}

export type ContainerStatuses = Pick<
  PodStatus,
  "initContainerStatuses" | "containerStatuses" | "ephemeralContainerStatuses"
>;
