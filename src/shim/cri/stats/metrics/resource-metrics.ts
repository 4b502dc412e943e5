/** Metrics of a cgroup (of a container, or of a pod with its own cgroup), and of a pod's network. */
import { MetricType } from "../../../../domain/cri.js";
import type {
  CpuReading,
  DirectionReading,
  InterfaceReading,
  MemoryReading,
  Pressure,
  ResourceReading,
} from "../../../../domain/resource-reading.js";
import { counter, gauge, type MetricDefinition } from "./metric.js";

const nanosecondsPerSecond = 1e9;
const microsecondsPerSecond = 1e6;

type ResourceMetric = MetricDefinition<ResourceReading>;

export const resourceMetrics: readonly ResourceMetric[] = [
  {
    ...cpu("usage_seconds_total", "CPU time, in seconds", (reading) => seconds(reading.usageNanoseconds)),
    labels: ["cpu"],
    samples: ({ cpu: reading }) =>
      reading === undefined ? [] : [{ labels: ["total"], value: seconds(reading.usageNanoseconds) }],
  },
  cpu("user_seconds_total", "CPU time in user mode, in seconds", (reading) =>
    seconds(reading.userNanoseconds),
  ),
  cpu("system_seconds_total", "CPU time in kernel mode, in seconds", (reading) =>
    seconds(reading.systemNanoseconds),
  ),
  cpu("cfs_periods_total", "Periods of the CPU quota that have passed", (reading) => reading.periods ?? 0),
  cpu(
    "cfs_throttled_periods_total",
    "Periods in which the CPU quota was used up",
    (reading) => reading.throttledPeriods ?? 0,
  ),
  cpu(
    "cfs_throttled_seconds_total",
    "Time without CPU because the quota was used up, in seconds",
    (reading) => seconds(reading.throttledNanoseconds),
  ),
  memory("usage_bytes", "Memory in use, page cache included, in bytes", ({ usage }) => usage),
  memory(
    "working_set_bytes",
    "Memory in use without inactive page cache, in bytes",
    (reading) => reading.workingSet,
  ),
  memory("rss", "Anonymous memory, in bytes", ({ rss }) => rss),
  memory("cache", "Page cache, in bytes", ({ cache }) => cache),
  memory("swap", "Swap in use, in bytes", ({ swap }) => swap),
  memory("mapped_file", "Files mapped into memory, in bytes", ({ mappedFiles }) => mappedFiles),
  memory("kernel_usage", "Memory that the kernel uses for the container, in bytes", ({ kernel }) => kernel),
  memory(
    "max_usage_bytes",
    "Highest memory usage so far, in bytes; 0 where the kernel does not keep it",
    (reading) => {
      return reading.highestUsage;
    },
  ),
  {
    ...memory("failcnt", "How often the memory limit was hit", ({ limitHits }) => limitHits),
    type: MetricType.COUNTER,
  },
  {
    name: "container_memory_failures_total",
    help: "Page faults, of the cgroup itself (container) and with those below it (hierarchy)",
    type: MetricType.COUNTER,
    labels: ["failure_type", "scope"],
    samples: ({ memory: reading }) =>
      reading === undefined
        ? []
        : [
            { labels: ["pgfault", "container"], value: reading.ownPageFaults ?? 0 },
            { labels: ["pgmajfault", "container"], value: reading.ownMajorPageFaults ?? 0 },
            { labels: ["pgfault", "hierarchy"], value: reading.pageFaults ?? 0 },
            { labels: ["pgmajfault", "hierarchy"], value: reading.majorPageFaults ?? 0 },
          ],
  },
  counter("container_oom_events_total", "Processes that were killed because memory ran out", (reading) =>
    reading.memory === undefined ? undefined : (reading.memory.oomKills ?? 0),
  ),
  ...pressure("cpu", "CPU", (reading) => reading.cpu?.pressure),
  ...pressure("memory", "memory", (reading) => reading.memory?.pressure),
  ...pressure("io", "IO", (reading) => reading.ioPressure),
  hugepages("usage_bytes", "Hugepages in use, in bytes", ({ usage }) => usage),
  hugepages(
    "max_usage_bytes",
    "Highest usage of hugepages so far, in bytes",
    (reading) => reading.highestUsage,
  ),
  gauge("container_threads", "Threads", ({ tasks }) => tasks),
  gauge(
    "container_threads_max",
    "Highest number of threads that is allowed; 0 is unlimited",
    ({ details }) => (details === undefined ? undefined : (details.tasksLimit ?? 0)),
  ),
];

function cpu(name: string, help: string, value: (reading: CpuReading) => number): ResourceMetric {
  return counter(`container_cpu_${name}`, help, ({ cpu: reading }) =>
    reading === undefined ? undefined : value(reading),
  );
}

/** 0 where the kernel does not count: scrapers expect every name. */
function memory(
  name: string,
  help: string,
  value: (reading: MemoryReading) => number | undefined,
): ResourceMetric {
  return gauge(`container_memory_${name}`, help, ({ memory: reading }) =>
    reading === undefined ? undefined : (value(reading) ?? 0),
  );
}

function pressure(
  resource: string,
  word: string,
  of: (reading: ResourceReading) => Pressure | undefined,
): readonly ResourceMetric[] {
  const name = (verb: string): string => `container_pressure_${resource}_${verb}_seconds_total`;
  const total = (share: Pressure["some"] | undefined): number | undefined =>
    share === undefined ? undefined : share.totalMicroseconds / microsecondsPerSecond;
  return [
    counter(name("waiting"), `Time that some tasks have waited for ${word}, in seconds`, (reading) =>
      total(of(reading)?.some),
    ),
    counter(name("stalled"), `Time that all tasks have waited for ${word}, in seconds`, (reading) =>
      total(of(reading)?.full),
    ),
  ];
}

function hugepages(
  name: string,
  help: string,
  value: (reading: { usage: number; highestUsage: number | undefined }) => number | undefined,
): ResourceMetric {
  return {
    name: `container_hugetlb_${name}`,
    help,
    type: MetricType.GAUGE,
    labels: ["pagesize"],
    samples: ({ details }) =>
      (details?.hugepages ?? []).flatMap((reading) => {
        const bytes = value(reading);
        return bytes === undefined ? [] : [{ labels: [reading.pageSize], value: bytes }];
      }),
  };
}

function seconds(nanoseconds: number | undefined): number {
  return (nanoseconds ?? 0) / nanosecondsPerSecond;
}

type Interfaces = readonly InterfaceReading[];

const directions = [
  { word: "receive", help: "received", of: ({ received }: InterfaceReading) => received },
  { word: "transmit", help: "sent", of: ({ transmitted }: InterfaceReading) => transmitted },
] as const;

const counts = [
  { name: "bytes", help: "Bytes", of: ({ bytes }: DirectionReading) => bytes },
  { name: "packets", help: "Packets", of: ({ packets }: DirectionReading) => packets },
  { name: "packets_dropped", help: "Dropped packets", of: ({ dropped }: DirectionReading) => dropped },
  { name: "errors", help: "Errors", of: ({ errors }: DirectionReading) => errors },
] as const;

export const networkMetrics: readonly MetricDefinition<Interfaces>[] = directions.flatMap((direction) =>
  counts.map((count) => ({
    name: `container_network_${direction.word}_${count.name}_total`,
    help: `${count.help}, ${direction.help}`,
    type: MetricType.COUNTER,
    labels: ["interface"],
    samples: (interfaces: Interfaces) =>
      interfaces.map((reading) => ({ labels: [reading.name], value: count.of(direction.of(reading)) })),
  })),
);
