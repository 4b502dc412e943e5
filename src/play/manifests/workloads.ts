/** What a set of manifest files asks for. Every object is checked; references are resolved. */
import type { FailureRule } from "./workload-schema.js";
import type { Manifest, Owner, PodKey, PodObjects } from "./manifest.js";
import type { Pod } from "./pod-schema.js";

export interface Workloads {
  /** The pods that exist from the beginning, in the order of the files: all but those of Jobs. */
  readonly pods: readonly Manifest[];
  /** Make pods until they are complete: see controllers/jobs.ts. Also CronJobs that run once. */
  readonly jobs: readonly Job[];
  /** Make jobs by the clock: see controllers/cron-jobs.ts. Only with `schedule`. */
  readonly cronJobs: readonly CronJob[];
  readonly services: readonly Service[];
  readonly claims: readonly Claim[];
  /** Want 0 pods. */
  readonly withoutPods: readonly (Owner & ObjectKey)[];
  /** What is valid and left out of account. */
  readonly notices: readonly Notice[];
}

/** A place in a file. */
export interface Place {
  /** `web.yaml, document 2` */
  readonly source: string;
  /** Line in the file, from 1, where known. */
  readonly line?: number | undefined;
}

export interface Notice extends Place {
  /** `Deployment web` */
  readonly object: string;
  readonly path: string;
  readonly reason: string;
}

/** What identifies any object of a kind. */
export interface ObjectKey {
  readonly namespace: string;
  readonly name: string;
}

/** A pod that has no name yet. `makePod` in make-pod.ts gives it one. */
export interface PodTemplate extends Place {
  readonly namespace: string;
  readonly owner: Owner;
  /** The name in it is that of the owner. */
  readonly pod: Pod;
  readonly objects: PodObjects;
}

export interface Job extends Place, ObjectKey {
  /** Number of pods that may run at the same time. */
  readonly parallelism: number;
  /** Number of pods that must succeed. Undefined: complete when one has succeeded and all have ended. */
  readonly completions: number | undefined;
  /** Each pod works on one index below `completions`. */
  readonly isIndexed: boolean;
  /** Number of failures after which the job has failed. */
  readonly backoffLimit: number;
  /** Number of failures of one index after which that index has failed. */
  readonly backoffLimitPerIndex: number | undefined;
  readonly maxFailedIndexes: number | undefined;
  /** The podFailurePolicy. Of several rules that match, the first one counts. */
  readonly failureRules: readonly FailureRule[];
  readonly activeDeadlineSeconds: number | undefined;
  /** Makes no pods. */
  readonly isSuspended: boolean;
  readonly template: PodTemplate;
}

export interface CronJob extends Place, ObjectKey {
  /** As written, checked. */
  readonly schedule: string;
  /** Name of the IANA database; undefined: the time zone of this process. */
  readonly timeZone: string | undefined;
  readonly concurrencyPolicy: "Allow" | "Forbid" | "Replace";
  readonly startingDeadlineSeconds: number | undefined;
  readonly isSuspended: boolean;
  /** Numbers of finished jobs whose pods are kept. */
  readonly successfulJobsHistoryLimit: number;
  readonly failedJobsHistoryLimit: number;
  /** Its name is that of the CronJob. */
  readonly job: Job;
}

export interface Service extends Place, ObjectKey {
  readonly type: "ClusterIP" | "NodePort" | "LoadBalancer" | "ExternalName";
  /** The name resolves to the pods' addresses (`clusterIP: None`). */
  readonly isHeadless: boolean;
  /** Undefined: has no pods of its own. */
  readonly selector: Readonly<Record<string, string>> | undefined;
  readonly ports: readonly ServicePort[];
  /** Host name that the service's name stands for. Only for the type ExternalName. */
  readonly externalName: string | undefined;
  readonly publishNotReadyAddresses: boolean;
  readonly sessionAffinity: "None" | "ClientIP";
  /** Its own, one of each family, where those of its pods cannot have its ports: see services/redirects.ts. */
  readonly ownAddresses?: readonly string[];
}

export interface ServicePort {
  readonly name: string | undefined;
  readonly protocol: "TCP" | "UDP" | "SCTP";
  readonly port: number;
  /** Number or name of a container's port. */
  readonly targetPort: number | string;
  /** As written; undefined: any. */
  readonly nodePort: number | undefined;
}

export interface Claim extends Place, ObjectKey {
  /** Bytes that are asked for. */
  readonly requestBytes: bigint | undefined;
  /** No container may write to it (the only access mode is ReadOnlyMany). */
  readonly isReadOnly: boolean;
  /** No second pod may use it at a time (ReadWriteOncePod). */
  readonly isForOnePod: boolean;
  /** The StatefulSet whose template made it. */
  readonly owner?: Owner;
}

/** What `--down` removes. */
export interface Removal {
  /** Pods of their own. */
  readonly pods: readonly { readonly source: string; readonly key: PodKey }[];
  /** All pods that play has made for these, whatever their number. */
  readonly owners: readonly (Owner & ObjectKey & Place)[];
  readonly services: readonly ObjectKey[];
  readonly claims: readonly ObjectKey[];
}
