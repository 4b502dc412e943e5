/** CPU time, memory, block I/O and huge pages of a cgroup, from the files of version 1 and 2. */
import type {
  BlockReading,
  CpuReading,
  HugepageReading,
  MemoryReading,
} from "../../../domain/resource-reading.js";
import { type CgroupText, countIn, KeyedText, numberIn, pressureIn } from "../text-scanner.js";
import { blockDeviceName } from "../../../lib/linux/kernel-file.js";

/** cpuacct.stat counts in hundredths of a second on every architecture (USER_HZ). */
const nanosecondsPerTick = 10_000_000;

/**
 * Undefined when the cgroup is gone or has no accounting. `details` reads what only metrics show, where that
 * is wanted. Pressure is of version 2, also on hosts that have both.
 */
export function readCpu(text: CgroupText, details: CgroupText | undefined): CpuReading | undefined {
  const v1 = countIn(text("cpuacct", "cpuacct.usage"));
  if (v1 !== undefined) {
    const reading = { usageNanoseconds: v1, pressure: pressureIn(text("", "cpu.pressure")) };
    return details === undefined ? reading : { ...reading, ...cpuDetailsV1(details) };
  }
  const stat = new KeyedText(text("", "cpu.stat") ?? "");
  const usage = stat.value("usage_usec");
  if (usage === undefined) return undefined;
  const reading = { usageNanoseconds: usage * 1000, pressure: pressureIn(text("", "cpu.pressure")) };
  return details === undefined ? reading : { ...reading, ...cpuDetailsV2(stat) };
}

type CpuDetails = Omit<CpuReading, "usageNanoseconds" | "pressure">;

function cpuDetailsV1(text: CgroupText): CpuDetails {
  const times = new KeyedText(text("cpuacct", "cpuacct.stat") ?? "");
  const quota = new KeyedText(text("cpu", "cpu.stat") ?? "");
  return {
    userNanoseconds: scaled(times.value("user"), nanosecondsPerTick),
    systemNanoseconds: scaled(times.value("system"), nanosecondsPerTick),
    periods: quota.value("nr_periods"),
    throttledPeriods: quota.value("nr_throttled"),
    throttledNanoseconds: quota.value("throttled_time"),
  };
}

function cpuDetailsV2(stat: KeyedText): CpuDetails {
  return {
    userNanoseconds: scaled(stat.value("user_usec"), 1000),
    systemNanoseconds: scaled(stat.value("system_usec"), 1000),
    periods: stat.value("nr_periods"),
    throttledPeriods: stat.value("nr_throttled"),
    throttledNanoseconds: scaled(stat.value("throttled_usec"), 1000),
  };
}

function scaled(value: number | undefined, factor: number): number | undefined {
  return value === undefined ? undefined : value * factor;
}

/**
 * Undefined when the cgroup is gone or has no accounting. `details` reads what only metrics show, where that
 * is wanted. Pressure is of version 2, also on hosts that have both.
 */
export function readMemory(text: CgroupText, details: CgroupText | undefined): MemoryReading | undefined {
  const v1 = numberIn(text("memory", "memory.usage_in_bytes"));
  if (v1 !== undefined) return readMemoryV1(text, v1, details);
  const v2 = numberIn(text("", "memory.current"));
  return v2 === undefined ? undefined : readMemoryV2(text, v2, details);
}

/** Usage without the page cache that the kernel takes back under pressure before it kills. */
export function workingSetOf(usage: number, inactiveFile: number | undefined): number {
  // Both are read at different moments.
  return Math.max(usage - (inactiveFile ?? 0), 0);
}

function readMemoryV1(text: CgroupText, usage: number, details: CgroupText | undefined): MemoryReading {
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
  return details === undefined ? reading : { ...reading, ...memoryDetailsV1(details, stat) };
}

function memoryDetailsV1(text: CgroupText, stat: KeyedText): Partial<MemoryReading> {
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

function readMemoryV2(text: CgroupText, usage: number, details: CgroupText | undefined): MemoryReading {
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
  return details === undefined ? reading : { ...reading, ...memoryDetailsV2(details, stat) };
}

function memoryDetailsV2(text: CgroupText, stat: KeyedText): Partial<MemoryReading> {
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

const operationsV1: ReadonlySet<string> = new Set(["Read", "Write", "Discard"]);
const lineV1 = /^(\d+):(\d+) (\w+) (\d+)$/gm;

/** With what the cgroups below did. */
export function readBlocks(text: CgroupText): readonly BlockReading[] {
  const bytes = text("blkio", "blkio.throttle.io_service_bytes_recursive");
  if (bytes !== undefined)
    return readBlocksV1(bytes, text("blkio", "blkio.throttle.io_serviced_recursive") ?? "");
  return readBlocksV2(text("", "io.stat") ?? "");
}

/** Lines `8:0 Read 4096`, with totals per device and over all. */
function readBlocksV1(bytesText: string, operationsText: string): readonly BlockReading[] {
  const counts = new Map<string, number>();
  for (const [, major, minor, operation, count] of operationsText.matchAll(lineV1))
    counts.set(`${major ?? ""}:${minor ?? ""} ${operation ?? ""}`, Number(count));
  return [...bytesText.matchAll(lineV1)]
    .filter(([, , , operation = ""]) => operationsV1.has(operation))
    .map(([, major = "", minor = "", operation = "", bytes]) => ({
      device: blockDeviceName(Number(major), Number(minor)),
      major: Number(major),
      minor: Number(minor),
      operation,
      bytes: Number(bytes),
      operations: counts.get(`${major}:${minor} ${operation}`) ?? 0,
    }));
}

/** Lines `8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6`; devices without any traffic have no values. */
function readBlocksV2(text: string): readonly BlockReading[] {
  return text.split("\n").flatMap((line) => {
    const [, major, minor] = /^(\d+):(\d+) /.exec(line) ?? [];
    if (major === undefined) return [];
    const values = new Map(line.split(" ").map((word) => word.split("=") as [string, string | undefined]));
    const device = blockDeviceName(Number(major), Number(minor));
    const reading = (operation: string, letter: string): BlockReading => ({
      device,
      major: Number(major),
      minor: Number(minor),
      operation,
      bytes: Number(values.get(`${letter}bytes`) ?? 0),
      operations: Number(values.get(`${letter}ios`) ?? 0),
    });
    const all = [reading("Read", "r"), reading("Write", "w"), reading("Discard", "d")];
    return values.has("rbytes") ? all : [];
  });
}

/** One entry per page size; `namesIn` lists the files of a controller's directory. */
export function readHugepages(
  text: CgroupText,
  namesIn: (controller: string) => readonly string[],
): readonly HugepageReading[] {
  const v1 = namesIn("hugetlb");
  const [controller, names, file] =
    v1.length > 0 ? (["hugetlb", v1, "usage_in_bytes"] as const) : (["", namesIn(""), "current"] as const);
  return names.flatMap((name) => {
    const [, pageSize] = /^hugetlb\.(\d+[KMG]B)\.(?:usage_in_bytes|current)$/.exec(name) ?? [];
    if (pageSize === undefined) return [];
    const usage = numberIn(text(controller, `hugetlb.${pageSize}.${file}`));
    if (usage === undefined) return [];
    const highestUsage = numberIn(text(controller, `hugetlb.${pageSize}.max_usage_in_bytes`));
    return [{ pageSize, usage, highestUsage }];
  });
}
