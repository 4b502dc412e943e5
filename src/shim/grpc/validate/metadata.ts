/** Names, attempts and labels of pods and containers. */
import type { ContainerMetadata, PodSandboxMetadata } from "../../domain/cri.js";
import {
  annotationPrefix,
  logPathLabel,
  sandboxIdLabel,
  typeLabel,
  type Labels,
} from "../../domain/labels.js";
import { invalidField } from "../../plan/field-errors.js";
import { atMost, notEmpty, present } from "./fields.js";

/** Kubernetes' own limit; far longer names make pods that network plugins cannot tear down. */
const maxNameCharacters = 253;
/** What Docker takes in a container name, of which these are parts. */
const namePattern = /^[A-Za-z0-9_.-]*$/;

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
    throw invalidField(field, "may only have letters, digits, and the characters _ . -", value);
  }
}

const ownLabels = [typeLabel, sandboxIdLabel, logPathLabel];

/**
 * Docker has only labels: annotations become labels with a prefix, and a few labels are the shim's own. A label that
 * looks like one of those would not come back as what it was.
 */
export function labels(field: string, given: Labels): void {
  for (const key of Object.keys(given)) {
    if (key.startsWith(annotationPrefix)) {
      throw invalidField(field, `a label cannot begin with "${annotationPrefix}"`, key);
    }
    if (ownLabels.includes(key)) throw invalidField(field, "this label is the runtime's own", key);
  }
}
