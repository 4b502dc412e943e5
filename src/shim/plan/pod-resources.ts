/** What a pod as a whole may use, as kubelets tell it: the kubelet itself sets the cgroup of the pod. */
import type { LinuxContainerResources } from "../domain/cri.js";
import { invalidField } from "../domain/field-errors.js";

export interface PodResources {
  readonly overhead: LinuxContainerResources | null;
  readonly resources: LinuxContainerResources | null;
}

/** It is kept in the pod's record, a file that is read as a whole at each start. */
const longestText = 64 * 1024;

/** Undefined when neither is given. `path` is what their paths begin with. */
export function podResources({ overhead, resources }: PodResources, path: string): PodResources | undefined {
  if (overhead === null && resources === null) return undefined;
  if (JSON.stringify({ overhead, resources }).length > longestText) {
    throw invalidField(`${path}resources`, `must be shorter than ${String(longestText)} characters as JSON`);
  }
  return { overhead, resources };
}
