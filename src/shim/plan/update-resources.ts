/** UpdateContainerResources: from the CRI's resources to Docker's update body. */
import type { LinuxContainerResources } from "../domain/cri.js";
import type { DockerResources } from "../domain/create-body.js";
import type { NodeFacts } from "../domain/node-facts.js";
import type { ResourceSnapshot } from "../domain/snapshot.js";
import type { CgroupSettings } from "../ports/host.js";
import { cgroupSettings } from "./cgroup-settings.js";
import { unsupportedField } from "./field-errors.js";
import { checkSwap, cpuResources } from "./resources.js";

export interface UpdatePlan {
  /** Empty when there is nothing that Docker must change. */
  readonly body: DockerResources;
  readonly cgroup?: CgroupSettings;
}

/**
 * Zero and empty fields leave what is in force. oom_score_adj cannot be changed in a running container by any runtime;
 * kubelets send it along with every resize, so it is not refused.
 */
export function planUpdate(
  resources: LinuxContainerResources,
  current: ResourceSnapshot,
  facts: NodeFacts,
): UpdatePlan {
  const cgroup = cgroupSettings(resources, facts, "linux");
  return {
    body: { ...cpuResources(resources), ...memoryUpdate(resources, current) },
    ...(cgroup === undefined ? {} : { cgroup }),
  };
}

/** Always both fields: Docker refuses a memory limit above the old sum of memory and swap unless the new sum comes along. */
function memoryUpdate(resources: LinuxContainerResources, current: ResourceSnapshot): DockerResources {
  const memory = Number(resources.memory_limit_in_bytes);
  const swap = Number(resources.memory_swap_limit_in_bytes);
  if (memory === 0 && swap === 0) return {};
  const newMemory = memory === 0 ? current.memory : memory;
  checkSwap(newMemory, swap, "linux");
  if (newMemory < 0 && current.memory > 0) {
    throw unsupportedField(
      "linux.memory_limit_in_bytes",
      "Docker cannot lift a memory limit that is in force",
    );
  }
  if (newMemory <= 0) return {};
  return { Memory: newMemory, MemorySwap: swap === 0 ? keepSwap(newMemory, current) : swap };
}

/** The sum that leaves the container the swap that it has: none, unlimited, or the same number of bytes. */
function keepSwap(newMemory: number, current: ResourceSnapshot): number {
  if (current.memorySwap === -1) return -1;
  const swapBytes = current.memory > 0 ? Math.max(0, current.memorySwap - current.memory) : 0;
  return newMemory + swapBytes;
}
