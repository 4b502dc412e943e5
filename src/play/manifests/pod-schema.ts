/** Every field of a Pod, and why others than those that `play` honours are passed over or refused. */
import type { lifecycleHandler, probe } from "./container-schema.js";
import {
  appArmorProfile,
  container,
  type env,
  ephemeralContainer,
  resources,
  seLinuxOptions,
  seccompProfile,
  windowsOptions,
} from "./container-schema.js";
import { podMetadata, templateMetadata } from "./metadata-schema.js";
import { address, dnsLabel, dnsSubdomain, notEmpty, podUid } from "./names.js";
import { atLeastOne, id, localReference, needsApiServer, notNegative, singleNode } from "./readers.js";
import {
  type Problem,
  type Reader,
  type TypeOf,
  anything,
  boolean,
  isObject,
  join,
  list,
  mandatory,
  notHonoured,
  object,
  oneOf,
  onlyIf,
  passedOver,
  passedOverBut,
  string,
} from "./schema.js";
import { volume } from "./volume-schema.js";

const podSecurityContext = object({
  runAsUser: id,
  runAsGroup: id,
  runAsNonRoot: boolean(),
  fsGroup: id,
  // Kubernetes applies it to volume kinds that keep data between pods; neither emptyDir nor hostPath looks at
  // it.
  fsGroupChangePolicy: oneOf(["OnRootMismatch", "Always"]),
  supplementalGroups: list(id),
  supplementalGroupsPolicy: oneOf(["Merge", "Strict"]),
  seccompProfile,
  appArmorProfile,
  seLinuxOptions,
  seLinuxChangePolicy: passedOver("volumes are labelled by the runtime"),
  sysctls: list(object({ name: mandatory(string(notEmpty)), value: mandatory(string()) })),
  windowsOptions,
});

/** play never mounts a token, so that only a wish for one is worth a notice. */
const automount: Reader<never> = (value, path, problems) =>
  value === false ? undefined : passedOver(needsApiServer)(value, path, problems);

/** On one node only the OOM score of this class counts. */
const priorityClass: Reader<"system-node-critical"> = (value, path, problems) =>
  value === "system-node-critical" ? value : passedOver(singleNode)(value, path, problems);

/** The spec of a pod, also that of a pod template. */
export const readPodSpec = object({
  containers: mandatory(list(container)),
  initContainers: list(container),
  ephemeralContainers: list(ephemeralContainer),
  volumes: list(volume),
  securityContext: podSecurityContext,
  hostNetwork: boolean(),
  hostPID: boolean(),
  hostIPC: boolean(),
  hostUsers: onlyIf((value) => value === true, "not honoured: the CRI server maps no users"),
  shareProcessNamespace: boolean(),
  hostname: string(dnsLabel),
  hostnameOverride: notHonoured("not honoured: use hostname"),
  hostAliases: list(object({ ip: mandatory(string(address)), hostnames: list(string(dnsSubdomain)) })),
  dnsPolicy: oneOf(["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]),
  dnsConfig: object({
    nameservers: list(string(address)),
    searches: list(string(notEmpty)),
    options: list(object({ name: mandatory(string(notEmpty)), value: string() })),
  }),
  restartPolicy: oneOf(["Always", "OnFailure", "Never"]),
  runtimeClassName: string(dnsSubdomain),
  terminationGracePeriodSeconds: notNegative,
  activeDeadlineSeconds: atLeastOne,
  subdomain: string(dnsLabel),
  setHostnameAsFQDN: boolean(),
  imagePullSecrets: list(localReference),
  enableServiceLinks: boolean(),
  os: object({ name: mandatory(oneOf(["linux"], { windows: "not honoured: the node runs Linux" })) }),
  resources,
  resourceClaims: notHonoured("not honoured: needs a driver for dynamic resource allocation"),
  overhead: passedOver("is set by an API server"),
  nodeName: passedOver(singleNode),
  nodeSelector: passedOver(singleNode),
  affinity: passedOver(singleNode),
  tolerations: passedOver(singleNode),
  topologySpreadConstraints: passedOver(singleNode),
  schedulerName: passedOver(singleNode),
  schedulingGates: passedOver(singleNode),
  schedulingGroup: passedOver(singleNode),
  priority: passedOver(singleNode),
  priorityClassName: priorityClass,
  preemptionPolicy: passedOver(singleNode),
  // Variables may ask for the name of the service account.
  serviceAccount: passedOverBut(string(dnsSubdomain), needsApiServer),
  serviceAccountName: passedOverBut(string(dnsSubdomain), needsApiServer),
  automountServiceAccountToken: automount,
  readinessGates: passedOver(needsApiServer),
});

/** Reads a whole Pod of the v1 API. */
export const readPod = object({
  apiVersion: mandatory(oneOf(["v1"])),
  kind: mandatory(oneOf(["Pod"])),
  metadata: mandatory(podMetadata),
  spec: mandatory(readPodSpec),
  status: anything(),
});

export const podTemplate = object({ metadata: templateMetadata, spec: mandatory(readPodSpec) });

/** Reads only name, namespace and uid, for the removal of an object. Ignores all other fields. */
export function readObjectName(value: unknown, path: string, problems: Problem[]): ObjectName | undefined {
  const metadata = isObject(value) && isObject(value["metadata"]) ? value["metadata"] : {};
  const { name, namespace, uid } = metadata;
  const read = object({
    name: mandatory(string(dnsSubdomain)),
    namespace: string(dnsLabel),
    uid: string(podUid),
  });
  return read({ name, namespace, uid }, join(path, "metadata"), problems);
}

export interface ObjectName {
  readonly name: string;
  readonly namespace?: string;
  readonly uid?: string;
}

/** The metadata of a Pod, without what an API server sets. */
export type PodMetadata = Pick<
  TypeOf<typeof podMetadata>,
  "name" | "namespace" | "uid" | "labels" | "annotations"
>;

export interface Pod {
  readonly apiVersion: "v1";
  readonly kind: "Pod";
  readonly metadata: PodMetadata;
  readonly spec: PodSpec;
}

export type PodSpec = TypeOf<typeof readPodSpec>;
export type Container = TypeOf<typeof container>;
export type EphemeralContainer = TypeOf<typeof ephemeralContainer>;
export type Probe = TypeOf<typeof probe>;
export type LifecycleHandler = TypeOf<typeof lifecycleHandler>;
export type EnvironmentVariable = TypeOf<typeof env>;
export type VolumeMount = NonNullable<Container["volumeMounts"]>[number];
export type { Volume } from "./volume-schema.js";
export type Profile = TypeOf<typeof seccompProfile>;
export type ContainerPort = NonNullable<Container["ports"]>[number];
