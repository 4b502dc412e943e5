/** The metadata of objects and of pod templates. */
import { dnsLabel, dnsSubdomain, labelValue, podUid } from "./names.js";
import { byQualifiedKey } from "./readers.js";
import { type Reader, isObject, join, malformed, mandatory, object, passedOver, string } from "./schema.js";

export const labels = byQualifiedKey(string(labelValue));

/** Annotations that confine a pod in older Kubernetes releases. Ignoring them would weaken its confinement. */
const actingAnnotation =
  /^(container\.apparmor\.security\.beta\.kubernetes\.io|container\.seccomp\.security\.alpha\.kubernetes\.io|seccomp\.security\.alpha\.kubernetes\.io)\//;

/** By these play knows the pods that it has made, and for which workload. */
const ownAnnotation = /^dockershim\.local\/play-/;

const plainAnnotations = byQualifiedKey(string());
const podAnnotations: typeof plainAnnotations = (value, path, problems) => {
  for (const key of isObject(value) ? Object.keys(value) : []) {
    if (ownAnnotation.test(key)) problems.push(malformed(join(path, key), "is reserved for marks of play"));
    if (!actingAnnotation.test(key)) continue;
    const reason = "not honoured: use appArmorProfile or seccompProfile of a securityContext";
    problems.push({ path: join(path, key), reason, kind: "notHonoured" });
  }
  return plainAnnotations(value, path, problems);
};

const setByServer = passedOver("is set by an API server");
const serverFields = {
  creationTimestamp: setByServer,
  deletionGracePeriodSeconds: setByServer,
  deletionTimestamp: setByServer,
  finalizers: setByServer,
  generation: setByServer,
  managedFields: setByServer,
  ownerReferences: setByServer,
  resourceVersion: setByServer,
  selfLink: setByServer,
};

/** RBAC and the like allow ':' in names; those kinds are not read. */
const identity = { name: mandatory(string(dnsSubdomain)), namespace: string(dnsLabel), uid: string(podUid) };
const generateName: Reader<string> = string((prefix) => dnsSubdomain(`${prefix}0`));

export const podMetadata = object({
  ...identity,
  generateName,
  labels,
  annotations: podAnnotations,
  ...serverFields,
});

export const objectMetadata = object({
  ...identity,
  generateName,
  labels,
  annotations: plainAnnotations,
  ...serverFields,
});

const namedByWorkload = passedOver("pods have the name and the namespace of their workload");

export const templateMetadata = object({
  name: namedByWorkload,
  namespace: namedByWorkload,
  generateName: namedByWorkload,
  uid: setByServer,
  labels,
  annotations: podAnnotations,
  ...serverFields,
});

/** For claim templates: the name is used. */
export const claimMetadata = object({
  name: mandatory(string(dnsLabel)),
  labels,
  annotations: plainAnnotations,
  namespace: namedByWorkload,
  generateName: namedByWorkload,
  uid: setByServer,
  ...serverFields,
});

/** With a name that is derived from generateName, always the same, so that a second play finds the object. */
export function withGeneratedName(value: unknown): unknown {
  if (!isObject(value) || !isObject(value["metadata"])) return value;
  const { metadata } = value;
  const { name, generateName: prefix } = metadata;
  if ((name !== undefined && name !== null) || typeof prefix !== "string") return value;
  return { ...value, metadata: { ...metadata, name: `${prefix}0` } };
}
