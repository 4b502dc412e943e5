/** The checkpoint of a sandbox, and the store of checkpoints. The format of the files is in `checkpoints/file-format.ts`. */

/**
 * What dockershim and cri-dockerd remember of a sandbox outside Docker, and therefore all that fits into a
 * file that they can read too. Everything else that must survive a restart is in `state/pod-records.ts`.
 */
export interface PodSandboxCheckpoint {
  readonly version: "v1";
  /** Name and namespace of the pod. */
  readonly name: string;
  readonly namespace: string;
  readonly data: {
    /** All mappings of the request in its order, also those with host port 0. */
    readonly portMappings?: readonly CheckpointPortMapping[];
    readonly hostNetwork?: true;
  };
}

export interface CheckpointPortMapping {
  readonly protocol: "tcp" | "udp" | "sctp";
  /** 32-bit signed, as in the CRI. */
  readonly containerPort: number;
  /** 32-bit signed, as in the CRI; 0 when the pod asked for none. */
  readonly hostPort: number;
  readonly hostIp?: string;
}

/**
 * Checkpoints by sandbox id. Calls for one id run one after the other, in order of arrival. Disk faults are
 * errors of kind `unavailable` (worth a retry) or `internal`, with the path; a file that cannot be understood
 * is never one.
 */
export interface CheckpointStore {
  /** A kill loses it no more when the promise resolves. An id that cannot be a file name is `invalid`. */
  put(id: string, checkpoint: PodSandboxCheckpoint): Promise<void>;
  /** Waits until the checkpoint that was put last outlives a power cut, or throws why it cannot. */
  flushed(id: string, signal: AbortSignal): Promise<void>;
  /** Undefined when there is none, or only one that cannot be understood (which is reported elsewhere, once). */
  get(id: string): Promise<PodSandboxCheckpoint | undefined>;
  /** Succeeds also when there is none. After a power cut the checkpoint may be back. */
  remove(id: string): Promise<void>;
  list(): Promise<readonly string[]>;
}
