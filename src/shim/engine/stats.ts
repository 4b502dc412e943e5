/** The answer of `GET /containers/{id}/stats`, of hosts with either version of cgroups. */
import { nowNanoseconds, parseTimestamp } from "../../lib/time.js";
import type {
  BlockReading,
  CpuReading,
  DirectionReading,
  EngineReading,
  InterfaceReading,
  MemoryReading,
} from "../../domain/resource-reading.js";
import { asObject, type Json, numberOf, objectOf, objectsOf, textOf } from "../../lib/json/json-readers.js";

/** Larger values mean "unlimited", also for tasks: some engines send the largest number. */
const unlimited = 2 ** 60;

/** Undefined for the empty sample of a container that does not run. */
export function toEngineReading(answer: unknown): EngineReading | undefined {
  const json = asObject(answer);
  const cpu = toCpu(objectOf(json, "cpu_stats"));
  const memory = toMemory(objectOf(json, "memory_stats"));
  const pids = objectOf(json, "pids_stats");
  const tasks = optional(pids, "current");
  if (cpu.usageNanoseconds === 0 && memory === undefined && tasks === undefined) return undefined;
  const read = parseTimestamp(textOf(json, "read"));
  return {
    resources: {
      timestamp: read === 0n ? nowNanoseconds() : read,
      cpu,
      nanoCores: undefined,
      memory,
      ioPressure: undefined,
      tasks,
      details: {
        cgroupPath: "",
        tasksLimit: limitOf(pids, "limit"),
        hugepages: [],
        blocks: toBlocks(objectOf(json, "blkio_stats")),
        processes: undefined,
      },
    },
    interfaces: Object.entries(objectOf(json, "networks")).map(([name, counters]) =>
      toInterface(name, asObject(counters)),
    ),
  };
}

function toCpu(stats: Json): CpuReading {
  const usage = objectOf(stats, "cpu_usage");
  const quota = objectOf(stats, "throttling_data");
  return {
    usageNanoseconds: numberOf(usage, "total_usage"),
    pressure: undefined,
    userNanoseconds: numberOf(usage, "usage_in_usermode"),
    systemNanoseconds: numberOf(usage, "usage_in_kernelmode"),
    periods: numberOf(quota, "periods"),
    throttledPeriods: numberOf(quota, "throttled_periods"),
    throttledNanoseconds: numberOf(quota, "throttled_time"),
  };
}

/** Version 1 of cgroups is told by its names for sums over cgroups below. */
function toMemory(memory: Json): MemoryReading | undefined {
  const usage = optional(memory, "usage");
  if (usage === undefined) return undefined;
  const stats = objectOf(memory, "stats");
  const first = (...keys: readonly string[]): number | undefined =>
    keys.map((key) => optional(stats, key)).find((value) => value !== undefined);
  const inactiveFile = first("total_inactive_file", "inactive_file") ?? 0;
  const hierarchicalLimit = limitOf(stats, "hierarchical_memory_limit");
  const bothLimit = limitOf(stats, "hierarchical_memsw_limit");
  const isV1 = optional(stats, "total_rss") !== undefined;
  return {
    usage,
    workingSet: Math.max(usage - inactiveFile, 0),
    // Without a limit the engine answers with the memory of its host.
    limit: limitOf(memory, "limit"),
    rss: first("total_rss", "anon"),
    pageFaults: first("total_pgfault", "pgfault"),
    majorPageFaults: first("total_pgmajfault", "pgmajfault"),
    pressure: undefined,
    swap: first("total_swap"),
    swapLimit:
      hierarchicalLimit === undefined || bothLimit === undefined
        ? undefined
        : Math.max(bothLimit - hierarchicalLimit, 0),
    cache: first("total_cache", "file"),
    kernel: isV1 ? undefined : (first("kernel") ?? kernelOf(stats)),
    mappedFiles: first("total_mapped_file", "file_mapped"),
    highestUsage: optional(memory, "max_usage"),
    limitHits: optional(memory, "failcnt"),
    ownPageFaults: first("pgfault"),
    ownMajorPageFaults: first("pgmajfault"),
  };
}

function kernelOf(stats: Json): number | undefined {
  const stack = optional(stats, "kernel_stack");
  return stack === undefined ? undefined : stack + numberOf(stats, "slab") + numberOf(stats, "sock");
}

/** Lists of `{ major, minor, op, value }`, or null. Version 1 of cgroups capitalizes the operations. */
function toBlocks(stats: Json): readonly BlockReading[] {
  const deviceOf = (entry: Json): string => `${numberOf(entry, "major")}:${numberOf(entry, "minor")}`;
  const key = (entry: Json): string => `${deviceOf(entry)} ${operationOf(entry)}`;
  const counts = new Map(
    objectsOf(stats, "io_serviced_recursive").map((entry) => [key(entry), numberOf(entry, "value")]),
  );
  return objectsOf(stats, "io_service_bytes_recursive")
    .filter((entry) => ["Read", "Write", "Discard"].includes(operationOf(entry)))
    .map((entry) => ({
      device: deviceOf(entry),
      major: numberOf(entry, "major"),
      minor: numberOf(entry, "minor"),
      operation: operationOf(entry),
      bytes: numberOf(entry, "value"),
      operations: counts.get(key(entry)) ?? 0,
    }));
}

function operationOf(entry: Json): string {
  const operation = textOf(entry, "op");
  return operation.slice(0, 1).toUpperCase() + operation.slice(1);
}

function toInterface(name: string, counters: Json): InterfaceReading {
  const direction = (prefix: string): DirectionReading => ({
    bytes: numberOf(counters, `${prefix}_bytes`),
    packets: numberOf(counters, `${prefix}_packets`),
    errors: numberOf(counters, `${prefix}_errors`),
    dropped: numberOf(counters, `${prefix}_dropped`),
  });
  return { name, received: direction("rx"), transmitted: direction("tx") };
}

function optional(json: Json, key: string): number | undefined {
  const value = json[key];
  return typeof value === "number" ? value : undefined;
}

function limitOf(json: Json, key: string): number | undefined {
  const value = optional(json, key);
  return value !== undefined && value > 0 && value < unlimited ? value : undefined;
}
