/** Limits that no field of the Engine API can express: they are written into the container's cgroup after its start. */
import type { LinuxContainerResources } from "../domain/cri.js";
import type { NodeFacts } from "../domain/node-facts.js";
import type { CgroupSettings } from "../ports/host.js";
import { invalidField } from "../domain/field-errors.js";
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

function isSentForEveryContainer([key, value]: readonly [string, string]): boolean {
  return key === "memory.oom.group" || (key === "memory.swap.max" && value === "0");
}

/**
 * Whether a container must not run without these settings. Kubelets send three of them for every container: hugepage
 * limits of 0 (which the pod's own cgroup enforces as well) and, on cgroup v2, `memory.oom.group` and, unless the node
 * lets pods swap, a `memory.swap.max` of 0. Docker sets the last one itself where there is a memory limit, because a
 * `MemorySwap` that is equal to `Memory` leaves no swap. Where the cgroup is out of reach, those alone are no reason to
 * refuse each and every pod.
 */
export function needsCgroup(settings: CgroupSettings): boolean {
  return (
    Object.entries(settings.unified).some((setting) => !isSentForEveryContainer(setting)) ||
    settings.hugepages.some(({ limitBytes }) => limitBytes > 0n)
  );
}
