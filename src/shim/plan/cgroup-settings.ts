/** Limits that no field of the Engine API can express: they are written into the container's cgroup after its start. */
import type { LinuxContainerResources } from "../domain/cri.js";
import type { NodeFacts } from "../domain/node-facts.js";
import type { CgroupSettings } from "../ports/host.js";
import { invalidField } from "./field-errors.js";
import type { ResourcesField } from "./resources.js";

/** Undefined when the request asks for none. */
export function cgroupSettings(
  resources: LinuxContainerResources | null | undefined,
  facts: NodeFacts,
  field: ResourcesField,
): CgroupSettings | undefined {
  if (resources === null || resources === undefined) return undefined;
  const unified = Object.keys(resources.unified);
  if (unified.length > 0 && facts.cgroupVersion === 1) {
    throw invalidField(
      `${field}.unified[${unified[0] ?? ""}]`,
      "the node has cgroup v1, unified settings need v2",
    );
  }
  const hugepages = resources.hugepage_limits.map(({ page_size, limit }) => ({
    pageSize: page_size,
    limitBytes: BigInt(limit),
  }));
  if (unified.length === 0 && hugepages.length === 0) return undefined;
  return { unified: resources.unified, hugepages };
}

/**
 * Whether a container must not run without these settings. Kubelets send two of them for every container: hugepage
 * limits of 0 (which the pod's own cgroup enforces as well) and, on cgroup v2, `memory.oom.group`. Where the cgroup is out
 * of reach, those alone are no reason to refuse each and every pod.
 */
export function needsCgroup(settings: CgroupSettings): boolean {
  return (
    Object.keys(settings.unified).some((key) => key !== "memory.oom.group") ||
    settings.hugepages.some(({ limitBytes }) => limitBytes > 0n)
  );
}
