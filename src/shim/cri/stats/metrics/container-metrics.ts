/** Metrics that only containers have: their files, processes and settings. */
import { MetricType } from "../../../../domain/cri.js";
import type { BlockReading, ResourceReading } from "../../../../domain/resource-reading.js";
import type { Snapshot } from "../../../../domain/snapshot.js";
import type { FileSystemUsage } from "../../../ports/host.js";
import type { LayerUsage } from "../../../ports/stats.js";
import { gauge, type MetricDefinition } from "./metric.js";

/** Docker's and the kernel's own, where a container was made without. */
const defaultCpuPeriodMicroseconds = 100_000;
const defaultCpuShares = 1024;
const nanosecondsPerSecond = 1_000_000_000n;

export interface ContainerSubject {
  readonly snapshot: Snapshot;
  readonly reading: ResourceReading;
  /** Undefined: not measured yet. */
  readonly layer: LayerUsage | undefined;
  /** File system of Docker's data root; undefined where it is out of reach. */
  readonly fileSystem: FileSystemUsage | undefined;
}

type ContainerMetric = MetricDefinition<ContainerSubject>;

export const containerMetrics: readonly ContainerMetric[] = [
  fileSystem("usage_bytes", "Size of the writable layer, in bytes; 0 until it was measured", ({ layer }) => {
    return layer?.usedBytes ?? 0;
  }),
  fileSystem("limit_bytes", "Size of the file system, in bytes", (subject) => subject.fileSystem?.totalBytes),
  fileSystem("inodes_total", "Inodes of the file system", (subject) => subject.fileSystem?.totalInodes),
  fileSystem("inodes_free", "Free inodes of the file system", (subject) => subject.fileSystem?.freeInodes),
  blocks("reads_bytes_total", "Bytes read", "Read", ({ bytes }) => bytes),
  blocks("reads_total", "Reads", "Read", ({ operations }) => operations),
  blocks("writes_bytes_total", "Bytes written", "Write", ({ bytes }) => bytes),
  blocks("writes_total", "Writes", "Write", ({ operations }) => operations),
  {
    name: "container_blkio_device_usage_total",
    help: "Bytes from and to block devices",
    type: MetricType.COUNTER,
    labels: ["device", "major", "minor", "operation"],
    samples: ({ reading }) =>
      (reading.details?.blocks ?? []).map(({ device, major, minor, operation, bytes }) => ({
        labels: [device, String(major), String(minor), operation],
        value: bytes,
      })),
  },
  gauge("container_processes", "Processes", ({ reading }) => reading.details?.processes?.processes),
  gauge("container_file_descriptors", "Open file descriptors", ({ reading }) => {
    return reading.details?.processes?.fileDescriptors;
  }),
  gauge("container_sockets", "Open sockets", ({ reading }) => reading.details?.processes?.sockets),
  {
    name: "container_ulimits_soft",
    help: "Soft limits of the container's first process",
    type: MetricType.GAUGE,
    labels: ["ulimit"],
    samples: ({ reading }) => {
      const value = reading.details?.processes?.openFilesLimit;
      return value === undefined ? [] : [{ labels: ["max_open_files"], value }];
    },
  },
  gauge("container_last_seen", "When the container was seen last, in seconds since 1970", ({ reading }) =>
    Number(reading.timestamp / nanosecondsPerSecond),
  ),
  gauge(
    "container_start_time_seconds",
    "When the container was started, in seconds since 1970",
    ({ snapshot }) => Number(snapshot.state.started / nanosecondsPerSecond),
  ),
  spec(
    "cpu_period",
    "CPU period, in microseconds",
    ({ cpuPeriod }) => cpuPeriod || defaultCpuPeriodMicroseconds,
  ),
  spec("cpu_quota", "CPU quota, in microseconds", ({ cpuQuota }) => (cpuQuota > 0 ? cpuQuota : undefined)),
  spec("cpu_shares", "CPU shares", ({ cpuShares }) => cpuShares || defaultCpuShares),
  spec("memory_limit_bytes", "Memory limit, in bytes; 0 is unlimited", (resources) => resources.memory),
  spec(
    "memory_swap_limit_bytes",
    "Limit of memory and swap together, in bytes; 0 is unlimited",
    (resources) => Math.max(resources.memorySwap, 0),
  ),
  gauge("container_spec_memory_reservation_limit_bytes", "Memory reservation, in bytes", ({ reading }) => {
    return reading.memory?.reservation;
  }),
];

function fileSystem(
  name: string,
  help: string,
  value: (subject: ContainerSubject) => number | undefined,
): ContainerMetric {
  return {
    name: `container_fs_${name}`,
    help,
    type: MetricType.GAUGE,
    labels: ["device"],
    samples: (subject) => {
      const number = value(subject);
      return number === undefined ? [] : [{ labels: [subject.fileSystem?.device ?? ""], value: number }];
    },
  };
}

function blocks(
  name: string,
  help: string,
  operation: string,
  value: (reading: BlockReading) => number,
): ContainerMetric {
  return {
    name: `container_fs_${name}`,
    help: `${help}, as far as the kernel charges them to the container`,
    type: MetricType.COUNTER,
    labels: ["device"],
    samples: ({ reading }) =>
      (reading.details?.blocks ?? [])
        .filter((block) => block.operation === operation)
        .map((block) => ({ labels: [block.device], value: value(block) })),
  };
}

function spec(
  name: string,
  help: string,
  value: (resources: Snapshot["resources"]) => number | undefined,
): ContainerMetric {
  return gauge(`container_spec_${name}`, help, ({ snapshot }) => value(snapshot.resources));
}
