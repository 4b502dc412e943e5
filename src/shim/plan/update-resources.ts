/** UpdateContainerResources: from the CRI's resources to Docker's update body. */
import type { LinuxContainerResources } from "../domain/cri.js";
import type { DockerResources } from "../domain/create-body.js";
import type { NodeFacts } from "../domain/node-facts.js";
import type { ResourceSnapshot } from "../domain/snapshot.js";
import type { CgroupSettings } from "../ports/host.js";
import { cgroupSettings } from "./cgroups.js";
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

/**
 * "No limit" in an update: the engine takes no -1 for memory, and does not pass one for memory and swap on. The first
 * leaves room for a sum above it; the second is what the kernel calls unlimited, the most whole pages.
 */
const liftedMemory = 2 ** 62;
const liftedSum = 2 ** 63 - 4096;

/** Whether a number of bytes in force stands for a limit that was lifted. */
export function isLifted(bytes: number): boolean {
  return bytes >= liftedMemory;
}

/** Always both fields: Docker refuses a memory limit above the old sum of memory and swap unless the new sum comes along. */
function memoryUpdate(resources: LinuxContainerResources, current: ResourceSnapshot): DockerResources {
  const memory = Number(resources.memory_limit_in_bytes);
  const swap = Number(resources.memory_swap_limit_in_bytes);
  if (memory === 0 && swap === 0) return {};
  const isLimited = current.memory > 0 && !isLifted(current.memory);
  const newMemory = memory === 0 && isLimited ? current.memory : memory;
  checkSwap(newMemory, swap, "linux");
  if (newMemory > 0) return { Memory: newMemory, MemorySwap: newSum(newMemory, swap, current) };
  return isLimited ? { Memory: liftedMemory, MemorySwap: newSum(liftedMemory, swap, current) } : {};
}

/** Of memory and swap. Without `swap` the container keeps what it has: none, unlimited, or the same number of bytes. */
function newSum(newMemory: number, swap: number, current: ResourceSnapshot): number {
  // Unlimited from the start, it stays so without being said.
  if (current.memorySwap === -1 && swap <= 0) return -1;
  if (swap > 0) return swap;
  const swapBytes = current.memory > 0 ? Math.max(0, current.memorySwap - current.memory) : 0;
  return swap < 0 || isLifted(swapBytes * 2) ? liftedSum : newMemory + swapBytes;
}
