/** Names, attempts and labels of pods and containers. */
import type { ContainerMetadata, PodSandboxMetadata } from "../../../domain/cri.js";
import { ownLabels, type Labels } from "../../../domain/labels.js";
import { invalidField } from "../../../domain/field-errors.js";
import { atMost, notEmpty, present } from "./fields.js";

/** Kubernetes' own limit; far longer names make pods that network plugins cannot tear down. */
const maxNameCharacters = 253;
/** What Docker takes in a container name, of which these are parts. */
const namePattern = /^[A-Za-z0-9._-]*$/;

export function podMetadata(field: string, metadata: PodSandboxMetadata | null): PodSandboxMetadata {
  const pod = present(field, metadata);
  notEmpty(`${field}.name`, pod.name);
  namePart(`${field}.name`, pod.name);
  namePart(`${field}.namespace`, pod.namespace);
  namePart(`${field}.uid`, pod.uid);
  return pod;
}

export function containerMetadata(field: string, metadata: ContainerMetadata | null): ContainerMetadata {
  const container = present(field, metadata);
  notEmpty(`${field}.name`, container.name);
  namePart(`${field}.name`, container.name);
  return container;
}

function namePart(field: string, value: string): void {
  atMost(field, value, maxNameCharacters);
  if (!namePattern.test(value)) {
    throw invalidField(field, "may only have letters, digits, and the characters . _ -", value);
  }
}

/** Docker has only labels, and a few are the shim's own: a caller's would be taken for one. */
export function labels(field: string, given: Labels): void {
  for (const key of Object.keys(given)) {
    if (ownLabels.includes(key)) throw invalidField(field, "this label is the runtime's own", key);
  }
}
