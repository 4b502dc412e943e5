/** Memory of a cgroup, and of all cgroups below it. */
import type { MemoryReading } from "../../domain/resource-reading.js";
import { type CgroupText, KeyedText, numberIn, pressureIn } from "./values.js";

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
  const stat = new KeyedText(text("memory", "memory.stat") ?? "");
  const limit = numberIn(text("memory", "memory.limit_in_bytes"));
  const bothLimit = numberIn(text("memory", "memory.memsw.limit_in_bytes"));
  const reading: MemoryReading = {
    usage,
    limit,
    rss: stat.value("total_rss"),
    // Without swap accounting there is no such line.
    swap: stat.value("total_swap"),
    pageFaults: stat.value("total_pgfault"),
    majorPageFaults: stat.value("total_pgmajfault"),
    workingSet: workingSetOf(usage, stat.value("total_inactive_file")),
    pressure: pressureIn(text("", "memory.pressure")),
    swapLimit: limit === undefined || bothLimit === undefined ? undefined : Math.max(bothLimit - limit, 0),
  };
  return details === undefined ? reading : { ...reading, ...readDetailsV1(details, stat) };
}

function readDetailsV1(text: CgroupText, stat: KeyedText): Partial<MemoryReading> {
  return {
    cache: stat.value("total_cache"),
    kernel: numberIn(text("memory", "memory.kmem.usage_in_bytes")),
    mappedFiles: stat.value("total_mapped_file"),
    highestUsage: numberIn(text("memory", "memory.max_usage_in_bytes")),
    limitHits: numberIn(text("memory", "memory.failcnt")),
    ownPageFaults: stat.value("pgfault"),
    ownMajorPageFaults: stat.value("pgmajfault"),
    reservation: numberIn(text("memory", "memory.soft_limit_in_bytes")),
    oomKills: new KeyedText(text("memory", "memory.oom_control") ?? "").value("oom_kill"),
  };
}

function readV2(text: CgroupText, usage: number, details: CgroupText | undefined): MemoryReading {
  const stat = new KeyedText(text("", "memory.stat") ?? "");
  const reading: MemoryReading = {
    usage,
    limit: numberIn(text("", "memory.max")),
    rss: stat.value("anon"),
    workingSet: workingSetOf(usage, stat.value("inactive_file")),
    pageFaults: stat.value("pgfault"),
    majorPageFaults: stat.value("pgmajfault"),
    pressure: pressureIn(text("", "memory.pressure")),
    swap: numberIn(text("", "memory.swap.current")),
    swapLimit: numberIn(text("", "memory.swap.max")),
  };
  return details === undefined ? reading : { ...reading, ...readDetailsV2(details, stat) };
}

function readDetailsV2(text: CgroupText, stat: KeyedText): Partial<MemoryReading> {
  const events = new KeyedText(text("", "memory.events") ?? "");
  const ownEvents = text("", "memory.events.local");
  const low = numberIn(text("", "memory.low"));
  return {
    cache: stat.value("file"),
    kernel: stat.value("kernel") ?? kernelOf(stat),
    mappedFiles: stat.value("file_mapped"),
    // Since Linux 5.19.
    highestUsage: numberIn(text("", "memory.peak")),
    limitHits: (ownEvents === undefined ? events : new KeyedText(ownEvents)).value("max"),
    // memory.stat of version 2 always counts the cgroups below, too.
    ownPageFaults: stat.value("pgfault"),
    ownMajorPageFaults: stat.value("pgmajfault"),
    reservation: low === 0 ? undefined : low,
    oomKills: events.value("oom_kill"),
  };
}

/** The sum has a line of its own only since Linux 5.18. */
function kernelOf(stat: KeyedText): number | undefined {
  const parts = ["kernel_stack", "pagetables", "percpu", "sock", "slab"].map((key) => stat.value(key));
  return parts.every((part) => part === undefined)
    ? undefined
    : parts.reduce<number>((sum, part) => sum + (part ?? 0), 0);
}
