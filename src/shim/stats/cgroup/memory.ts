/** Memory of a cgroup, and of all cgroups below it. */
import type { MemoryReading } from "../../domain/resource-reading.js";
import { type CgroupText, numberIn, pressureIn, valueOf } from "./values.js";

/**
 * Undefined when the cgroup is gone or has no accounting. `details` reads what only metrics show, where that is wanted.
 * Pressure is of version 2, also on hosts that have both.
 */
export function readMemory(text: CgroupText, details: CgroupText | undefined): MemoryReading | undefined {
  const v1 = numberIn(text("memory", "memory.usage_in_bytes"));
  if (v1 !== undefined) return readV1(text, v1, details);
  const v2 = numberIn(text("", "memory.current"));
  return v2 === undefined ? undefined : readV2(text, v2, details);
}

/** Usage includes page cache; what of it was not used for a while is given back under pressure, before anything is killed. */
export function workingSetOf(usage: number, inactiveFile: number | undefined): number {
  // Both are read at different moments.
  return Math.max(usage - (inactiveFile ?? 0), 0);
}

function readV1(text: CgroupText, usage: number, details: CgroupText | undefined): MemoryReading {
  const stat = text("memory", "memory.stat") ?? "";
  const limit = numberIn(text("memory", "memory.limit_in_bytes"));
  const bothLimit = numberIn(text("memory", "memory.memsw.limit_in_bytes"));
  return {
    usage,
    workingSet: workingSetOf(usage, valueOf(stat, "total_inactive_file")),
    limit,
    rss: valueOf(stat, "total_rss"),
    pageFaults: valueOf(stat, "total_pgfault"),
    majorPageFaults: valueOf(stat, "total_pgmajfault"),
    pressure: pressureIn(text("", "memory.pressure")),
    // Without swap accounting there is no such line.
    swap: valueOf(stat, "total_swap"),
    swapLimit: limit === undefined || bothLimit === undefined ? undefined : Math.max(bothLimit - limit, 0),
    ...(details === undefined ? {} : readDetailsV1(details, stat)),
  };
}

function readDetailsV1(text: CgroupText, stat: string): Partial<MemoryReading> {
  return {
    cache: valueOf(stat, "total_cache"),
    kernel: numberIn(text("memory", "memory.kmem.usage_in_bytes")),
    mappedFiles: valueOf(stat, "total_mapped_file"),
    highestUsage: numberIn(text("memory", "memory.max_usage_in_bytes")),
    limitHits: numberIn(text("memory", "memory.failcnt")),
    ownPageFaults: valueOf(stat, "pgfault"),
    ownMajorPageFaults: valueOf(stat, "pgmajfault"),
    reservation: numberIn(text("memory", "memory.soft_limit_in_bytes")),
    oomKills: valueOf(text("memory", "memory.oom_control") ?? "", "oom_kill"),
  };
}

function readV2(text: CgroupText, usage: number, details: CgroupText | undefined): MemoryReading {
  const stat = text("", "memory.stat") ?? "";
  const pageFaults = valueOf(stat, "pgfault");
  const majorPageFaults = valueOf(stat, "pgmajfault");
  return {
    usage,
    workingSet: workingSetOf(usage, valueOf(stat, "inactive_file")),
    limit: numberIn(text("", "memory.max")),
    rss: valueOf(stat, "anon"),
    pageFaults,
    majorPageFaults,
    pressure: pressureIn(text("", "memory.pressure")),
    swap: numberIn(text("", "memory.swap.current")),
    swapLimit: numberIn(text("", "memory.swap.max")),
    ...(details === undefined ? {} : readDetailsV2(details, stat)),
  };
}

function readDetailsV2(text: CgroupText, stat: string): Partial<MemoryReading> {
  const events = text("", "memory.events") ?? "";
  const ownEvents = text("", "memory.events.local") ?? events;
  const low = numberIn(text("", "memory.low"));
  return {
    cache: valueOf(stat, "file"),
    kernel: valueOf(stat, "kernel") ?? kernelOf(stat),
    mappedFiles: valueOf(stat, "file_mapped"),
    // Since Linux 5.19.
    highestUsage: numberIn(text("", "memory.peak")),
    limitHits: valueOf(ownEvents, "max"),
    // memory.stat of version 2 always counts the cgroups below, too.
    ownPageFaults: valueOf(stat, "pgfault"),
    ownMajorPageFaults: valueOf(stat, "pgmajfault"),
    reservation: low === 0 ? undefined : low,
    oomKills: valueOf(events, "oom_kill"),
  };
}

/** The sum has a line of its own only since Linux 5.18. */
function kernelOf(stat: string): number | undefined {
  const parts = ["kernel_stack", "pagetables", "percpu", "sock", "slab"].map((key) => valueOf(stat, key));
  return parts.every((part) => part === undefined)
    ? undefined
    : parts.reduce<number>((sum, part) => sum + (part ?? 0), 0);
}
