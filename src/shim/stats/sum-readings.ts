/** A pod without a cgroup of its own: the sum of its containers. */
import type { CpuReading, MemoryReading, ResourceReading } from "../../domain/resource-reading.js";
import { nowNanoseconds } from "../../lib/time.js";

/**
 * Counters go down when a container ends, unlike those of a cgroup. The sum has no limits, pressure and
 * details, and no value that one of the parts lacks.
 */
export function sumReadings(
  parts: readonly ResourceReading[],
): Omit<ResourceReading, "nanoCores"> | undefined {
  if (parts.length === 0) return undefined;
  return {
    timestamp: nowNanoseconds(),
    cpu: sumCpu(parts.map(({ cpu }) => cpu)),
    memory: sumMemory(parts.map(({ memory }) => memory)),
    ioPressure: undefined,
    tasks: sum(parts.map(({ tasks }) => tasks)),
  };
}

function sumCpu(parts: readonly (CpuReading | undefined)[]): CpuReading | undefined {
  const usageNanoseconds = sum(parts.map((part) => part?.usageNanoseconds));
  if (usageNanoseconds === undefined) return undefined;
  return {
    usageNanoseconds,
    pressure: undefined,
    userNanoseconds: sum(parts.map((part) => part?.userNanoseconds)),
    systemNanoseconds: sum(parts.map((part) => part?.systemNanoseconds)),
  };
}

function sumMemory(parts: readonly (MemoryReading | undefined)[]): MemoryReading | undefined {
  const of = (pick: (part: MemoryReading) => number | undefined): number | undefined =>
    sum(parts.map((part) => (part === undefined ? undefined : pick(part))));
  const usage = of((part) => part.usage);
  const workingSet = of((part) => part.workingSet);
  if (usage === undefined || workingSet === undefined) return undefined;
  return {
    usage,
    workingSet,
    limit: undefined,
    rss: of((part) => part.rss),
    pageFaults: of((part) => part.pageFaults),
    majorPageFaults: of((part) => part.majorPageFaults),
    pressure: undefined,
    swap: of((part) => part.swap),
    swapLimit: undefined,
    cache: of((part) => part.cache),
    kernel: of((part) => part.kernel),
    mappedFiles: of((part) => part.mappedFiles),
  };
}

function sum(values: readonly (number | undefined)[]): number | undefined {
  let total = 0;
  for (const value of values) {
    if (value === undefined) return undefined;
    total += value;
  }
  return total;
}
