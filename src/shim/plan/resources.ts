/** Resources of new containers, of updates and of pods: from the CRI's fields to Docker's. */
import type { LinuxContainerResources } from "../../domain/cri.js";
import { type DockerResources, unlessBlank } from "../../domain/create-body.js";
import { invalidField, unsupportedField } from "../../domain/field-errors.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import type { ResourceSnapshot } from "../../domain/snapshot.js";
import type { CgroupSettings } from "../ports/host.js";
import { cgroupSettings, type ResourcesField } from "./cgroups.js";

/** The limits of a new container. Zero and empty mean "not given" and are left out. */
export function createResources(resources: LinuxContainerResources | null | undefined): DockerResources {
  if (resources === null || resources === undefined) return {};
  return { ...cpuResources(resources), ...memoryResources(resources) };
}

/** CPU shares, quota and sets; the same for create and update. */
function cpuResources(resources: LinuxContainerResources): DockerResources {
  return {
    ...number("CpuPeriod", Number(resources.cpu_period)),
    // For the kernel each negative quota is none.
    ...number("CpuQuota", Math.max(Number(resources.cpu_quota), -1)),
    ...number("CpuShares", Math.min(Number(resources.cpu_shares), maxCpuShares)),
    ...text("CpusetCpus", resources.cpuset_cpus),
    ...text("CpusetMems", resources.cpuset_mems),
  };
}

/**
 * Docker's MemorySwap counts memory and swap together, as the CRI's field does. Without it Docker would allow
 * as much swap as memory, so no swap is said explicitly.
 */
function memoryResources(resources: LinuxContainerResources): DockerResources {
  const memory = toBytes(resources.memory_limit_in_bytes);
  const swap = toBytes(resources.memory_swap_limit_in_bytes);
  checkSwap(memory, swap, "config.linux.resources");
  if (memory <= 0) return {};
  return { Memory: memory, MemorySwap: swap === 0 ? memory : swap };
}

const noSumWithoutMemory =
  "counts memory and swap together, which Docker, runc and the kernel limit only beside memory_limit_in_bytes " +
  "(swap alone: unified memory.swap.max, with cgroup v2)";

/** Bytes; `memory` 0 or less is unlimited, `swap` 0 not given and -1 unlimited. */
export function checkSwap(memory: number, swap: number, field: ResourcesField): void {
  const name = `${field}.memory_swap_limit_in_bytes`;
  if (swap <= 0) return;
  if (memory <= 0) throw unsupportedField(name, noSumWithoutMemory);
  if (swap < memory)
    throw invalidField(name, "counts memory and swap together, so it cannot be below the memory limit");
}

/** The kernel's. It cuts a larger value itself, but OCI runtimes fail when they read another one back. */
const maxCpuShares = 262_144;

/**
 * A limit that a JSON number of the Engine API can carry. Beyond 2^53 it is exact to less than the kernel's
 * page; from `liftedMemory` on it is none.
 */
function toBytes(value: string): number {
  return Math.min(Number(value), liftedMemory);
}

function number<Key extends keyof DockerResources>(key: Key, value: number): Partial<Record<Key, number>> {
  // The assertion only names the computed key.
  return value === 0 ? {} : ({ [key]: value } as Record<Key, number>);
}

function text<Key extends keyof DockerResources>(key: Key, value: string): Partial<Record<Key, string>> {
  const given = unlessBlank(value);
  return given === undefined ? {} : ({ [key]: given } as Record<Key, string>);
}

/** Resources of a whole pod, as the kubelet sends them. The kubelet sets the pod's cgroup itself. */
export interface PodResources {
  readonly overhead: LinuxContainerResources | null;
  readonly resources: LinuxContainerResources | null;
}

/** The pod record keeps it, and is read as a whole at each start. */
const maximumTextLength = 64 * 1024;

/** Undefined when neither is given. `path` is the prefix of both fields in the request. */
export function podResources({ overhead, resources }: PodResources, path: string): PodResources | undefined {
  if (overhead === null && resources === null) return undefined;
  if (JSON.stringify({ overhead, resources }).length > maximumTextLength)
    throw invalidField(`${path}resources`, `must be shorter than ${maximumTextLength} characters as JSON`);
  return { overhead, resources };
}

export interface UpdatePlan {
  /** Empty when there is nothing that Docker must change. */
  readonly body: DockerResources;
  readonly cgroup?: CgroupSettings;
}

/**
 * Plans UpdateContainerResources. Zero and empty fields change nothing. No runtime can change the
 * oom_score_adj of a running container, but kubelets send it with every resize, so it is not refused.
 */
export function planUpdate(
  resources: LinuxContainerResources | null,
  current: ResourceSnapshot,
  facts: NodeFacts,
): UpdatePlan {
  if (resources === null) return { body: {} };
  const cgroup = cgroupSettings(resources, facts, "linux");
  return {
    body: { ...cpuResources(resources), ...memoryUpdate(resources, current) },
    ...(cgroup === undefined ? {} : { cgroup }),
  };
}

/**
 * "No limit" in an update: the engine refuses -1 for memory and ignores it for the sum of memory and swap.
 * The first value leaves room for a sum above it; the second one is the kernel's own value for unlimited.
 */
const liftedMemory = 2 ** 62;
const liftedSum = 2 ** 63 - 4096;

/** Whether a number of bytes in force stands for a limit that was lifted. */
export function isLifted(bytes: number): boolean {
  return bytes >= liftedMemory;
}

/** Sets both fields: Docker refuses a memory limit above the old sum of memory and swap without a new sum. */
function memoryUpdate(resources: LinuxContainerResources, current: ResourceSnapshot): DockerResources {
  const memory = toBytes(resources.memory_limit_in_bytes);
  const swap = toBytes(resources.memory_swap_limit_in_bytes);
  if (memory === 0 && swap === 0) return {};
  const isLimited = current.memory > 0 && !isLifted(current.memory);
  const newMemory = memory === 0 && isLimited ? current.memory : memory;
  checkSwap(newMemory, swap, "linux");
  if (newMemory > 0) return { Memory: newMemory, MemorySwap: newSum(newMemory, swap, current) };
  return isLimited ? { Memory: liftedMemory, MemorySwap: newSum(liftedMemory, swap, current) } : {};
}

/**
 * The sum of memory and swap. Without `swap` the container keeps its swap: none, unlimited, or the same
 * number of bytes.
 */
function newSum(newMemory: number, swap: number, current: ResourceSnapshot): number {
  // Unlimited since the create, it stays so.
  if (current.memorySwap === -1 && swap <= 0) return -1;
  if (swap > 0) return swap;
  const swapBytes = current.memory > 0 ? Math.max(0, current.memorySwap - current.memory) : 0;
  return swap < 0 || isLifted(swapBytes * 2) ? liftedSum : newMemory + swapBytes;
}
