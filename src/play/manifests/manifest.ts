/** A pod to play, with all that it refers to. */
import type { Pod } from "./pod-schema.js";

/** The API server writes `default` into a pod that names none. */
export function serviceAccountOf({ spec }: Pick<Pod, "spec">): string {
  return spec.serviceAccountName ?? spec.serviceAccount ?? "default";
}

/** What identifies a pod on the node. */
export interface PodKey {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** The name of a pod or of another object for people, and as a key: `default/web`. */
export function nameOf({ namespace, name }: Pick<PodKey, "namespace" | "name">): string {
  return `${namespace}/${name}`;
}

/** The data of a ConfigMap or of a Secret, decoded. */
export type ObjectData = Readonly<Record<string, Buffer>>;

/** The objects of the pod's namespace that the pod refers to. */
export interface PodObjects {
  readonly configMaps: ReadonlyMap<string, ObjectData>;
  /** Of ConfigMaps, by their name: the keys of `binaryData`, which are no variables. */
  readonly binaryKeys?: ReadonlyMap<string, readonly string[]>;
  /** Also those of imagePullSecrets. Never shown. */
  readonly secrets: ReadonlyMap<string, SecretData>;
}

export interface SecretData {
  readonly type: string;
  readonly data: ObjectData;
}

/** The workload that a pod was made for. */
export interface Owner {
  /** `Deployment` */
  readonly kind: string;
  readonly name: string;
}

/** A pod to play. */
export interface Manifest {
  /** `examples/web.yaml, document 2` */
  readonly source: string;
  readonly key: PodKey;
  readonly pod: Pod;
  /** SHA-256 of the content; the order of keys does not matter. */
  readonly hash: string;
  /** None for a Pod of its own. */
  readonly owner?: Owner;
  readonly objects: PodObjects;
  /** Of a job's pod: see job-mark.ts. */
  readonly jobMark?: string;
  /** Name of the pod of the same StatefulSet that must be ready before this one is made. */
  readonly startsAfter?: string;
  /** None: it is made anew at once when it has changed. All pods of a workload have the same. */
  readonly update?: UpdateStrategy;
  /** The field for which it stays as it was made, until it is deleted. */
  readonly staysBy?: string;
}

/** How pods of a workload that has changed are made anew: see controllers/rolling.ts. */
export interface UpdateStrategy {
  readonly type: "RollingUpdate" | "Recreate" | "OnDelete";
  /** From the highest ordinal to the lowest. */
  readonly isOrdered: boolean;
  /** How many may lack at a time. */
  readonly maxUnavailable: number;
  /** Pods that may be there beside the others meanwhile. */
  readonly surge: readonly Manifest[];
  /** Why there are none, although maxSurge says so. */
  readonly withoutSurge?: string;
  readonly minReadySeconds: number;
  /** Undefined: none. */
  readonly progressDeadlineSeconds?: number;
}
