/** Resource limits of a new container. */
import type { LinuxContainerResources } from "../domain/cri.js";
import type { DockerResources } from "../domain/create-body.js";
import { unlessBlank } from "./defined.js";
import { invalidField, unsupportedField } from "../domain/field-errors.js";

/** The path of the resources in a request, for error messages. */
export type ResourcesField = "linux" | "config.linux.resources";

/** Zero and empty mean "not given" and are left out. */
export function createResources(resources: LinuxContainerResources | null | undefined): DockerResources {
  if (resources === null || resources === undefined) return {};
  return { ...cpuResources(resources), ...memoryResources(resources) };
}

/** CPU shares, quota and sets; the same for create and update. */
export function cpuResources(resources: LinuxContainerResources): DockerResources {
  return {
    ...number("CpuPeriod", resources.cpu_period),
    ...number("CpuQuota", resources.cpu_quota),
    ...number("CpuShares", resources.cpu_shares),
    ...text("CpusetCpus", resources.cpuset_cpus),
    ...text("CpusetMems", resources.cpuset_mems),
  };
}

/**
 * Docker's MemorySwap counts memory and swap together, as the CRI's field does. Without it Docker would allow as much
 * swap as memory, so no swap is said explicitly.
 */
function memoryResources(resources: LinuxContainerResources): DockerResources {
  const memory = Number(resources.memory_limit_in_bytes);
  const swap = Number(resources.memory_swap_limit_in_bytes);
  checkSwap(memory, swap, "config.linux.resources");
  if (memory <= 0) return {};
  return { Memory: memory, MemorySwap: swap === 0 ? memory : swap };
}

/** Bytes; `memory` 0 or less is unlimited, `swap` 0 not given and -1 unlimited. */
export function checkSwap(memory: number, swap: number, field: ResourcesField): void {
  const name = `${field}.memory_swap_limit_in_bytes`;
  if (swap <= 0) return;
  if (memory <= 0)
    throw unsupportedField(name, "Docker limits swap only together with memory_limit_in_bytes");
  if (swap < memory)
    throw invalidField(name, "counts memory and swap together, so it cannot be below the memory limit");
}

function number<Key extends keyof DockerResources>(key: Key, value: string): Partial<Record<Key, number>> {
  const parsed = Number(value);
  // The assertion only names the computed key.
  return parsed === 0 ? {} : ({ [key]: parsed } as Record<Key, number>);
}

function text<Key extends keyof DockerResources>(key: Key, value: string): Partial<Record<Key, string>> {
  const given = unlessBlank(value);
  return given === undefined ? {} : ({ [key]: given } as Record<Key, string>);
}
