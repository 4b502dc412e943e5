/**
 * Resource usage of a container or a pod at one time. Values that the source does not have are undefined,
 * never 0.
 *
 * Numbers are doubles: beyond 2^53 (104 days of CPU time of one core, in nanoseconds) the last digits are
 * rounded.
 */
import type { Nanoseconds } from "../lib/time.js";

/** One line of a pressure file. */
export interface PressureShare {
  /** Since the cgroup was made, in microseconds, the kernel's unit. */
  readonly totalMicroseconds: number;
  /** Percent of the last 10, 60 and 300 seconds. */
  readonly avg10: number;
  readonly avg60: number;
  readonly avg300: number;
}

/** Time that some, or all, tasks have waited. */
export interface Pressure {
  readonly some: PressureShare;
  readonly full: PressureShare;
}

export interface CpuReading {
  /** CPU time of all cores since the cgroup was made. */
  readonly usageNanoseconds: number;
  readonly pressure: Pressure | undefined;
  /** From here on: only in details. */
  readonly userNanoseconds?: number | undefined;
  readonly systemNanoseconds?: number | undefined;
  /** Periods of the CPU quota that have passed, and those in which the quota was used up. */
  readonly periods?: number | undefined;
  readonly throttledPeriods?: number | undefined;
  readonly throttledNanoseconds?: number | undefined;
}

/** Bytes, unless a name says otherwise. */
export interface MemoryReading {
  readonly usage: number;
  /** What cannot be reclaimed at once: usage without the page cache that was not used for a while. */
  readonly workingSet: number;
  /** Undefined: unlimited. */
  readonly limit: number | undefined;
  readonly rss: number | undefined;
  /** Counts, with those of cgroups below. */
  readonly pageFaults: number | undefined;
  readonly majorPageFaults: number | undefined;
  readonly pressure: Pressure | undefined;
  readonly swap: number | undefined;
  /** Undefined: unlimited, or no swap accounting. */
  readonly swapLimit: number | undefined;
  /** From here on: only in details. */
  readonly cache?: number | undefined;
  readonly kernel?: number | undefined;
  readonly mappedFiles?: number | undefined;
  readonly highestUsage?: number | undefined;
  /** How often the limit was hit. */
  readonly limitHits?: number | undefined;
  /** Page faults of the cgroup alone. */
  readonly ownPageFaults?: number | undefined;
  readonly ownMajorPageFaults?: number | undefined;
  /** What is kept from reclaim under pressure; undefined: nothing was set. */
  readonly reservation?: number | undefined;
  readonly oomKills?: number | undefined;
}

export interface HugepageReading {
  /** As the kernel spells it: `2MB`. */
  readonly pageSize: string;
  readonly usage: number;
  readonly highestUsage: number | undefined;
}

/** Traffic of one block device in one direction. */
export interface BlockReading {
  /** `/dev/sda`, or `8:0` where the name is not known. */
  readonly device: string;
  readonly major: number;
  readonly minor: number;
  /** `Read`, `Write`, `Discard`, as cAdvisor labels them. */
  readonly operation: string;
  readonly bytes: number;
  readonly operations: number;
}

export interface ProcessReading {
  readonly processes: number;
  readonly fileDescriptors: number;
  readonly sockets: number;
  /** Soft limit of open files of the first process; undefined: unlimited. */
  readonly openFilesLimit: number | undefined;
}

export interface ResourceReading {
  readonly timestamp: Nanoseconds;
  readonly cpu: CpuReading | undefined;
  /** CPU time per second of wall time, since an earlier reading; at the first one since the start. */
  readonly nanoCores: number | undefined;
  readonly memory: MemoryReading | undefined;
  readonly ioPressure: Pressure | undefined;
  /** Tasks as the pids controller counts them: threads, too. */
  readonly tasks: number | undefined;
  readonly details?: ReadingDetails;
}

/** Values that only metrics show. */
export interface ReadingDetails {
  /** As /proc/<pid>/cgroup has it; empty where it is not known. */
  readonly cgroupPath: string;
  /** Undefined: unlimited. */
  readonly tasksLimit: number | undefined;
  readonly hugepages: readonly HugepageReading[];
  readonly blocks: readonly BlockReading[];
  readonly processes: ProcessReading | undefined;
}

/** Counters of one network interface since it was made. */
export interface InterfaceReading {
  readonly name: string;
  readonly received: DirectionReading;
  readonly transmitted: DirectionReading;
}

export interface DirectionReading {
  readonly bytes: number;
  readonly packets: number;
  readonly errors: number;
  readonly dropped: number;
}

/** The answer to `GET /containers/{id}/stats`. */
export interface EngineReading {
  /** In details; without what Docker does not tell. */
  readonly resources: ResourceReading;
  /** Interfaces of Docker's own networks; empty with network mode none, host or container. */
  readonly interfaces: readonly InterfaceReading[];
}
