/** CPU time of a cgroup. */
import type { CpuReading } from "../../domain/resource-reading.js";
import { type CgroupText, pressureIn, valueOf, numberIn } from "./values.js";

/** cpuacct.stat counts in hundredths of a second on every architecture (USER_HZ). */
const nanosecondsPerTick = 10_000_000;

/**
 * Undefined when the cgroup is gone or has no accounting. `details` reads what only metrics show, where that is wanted. Pressure is
 * of version 2, also on hosts that have both.
 */
export function readCpu(text: CgroupText, details: CgroupText | undefined): CpuReading | undefined {
  const v1 = numberIn(text("cpuacct", "cpuacct.usage"));
  if (v1 !== undefined) {
    const pressure = pressureIn(text("", "cpu.pressure"));
    return { usageNanoseconds: v1, pressure, ...(details === undefined ? {} : readDetailsV1(details)) };
  }
  const stat = text("", "cpu.stat");
  const usage = stat === undefined ? undefined : valueOf(stat, "usage_usec");
  if (stat === undefined || usage === undefined) return undefined;
  const pressure = pressureIn(text("", "cpu.pressure"));
  return { usageNanoseconds: usage * 1000, pressure, ...(details === undefined ? {} : readDetailsV2(stat)) };
}

type CpuDetails = Omit<CpuReading, "usageNanoseconds" | "pressure">;

function readDetailsV1(text: CgroupText): CpuDetails {
  const times = text("cpuacct", "cpuacct.stat") ?? "";
  const quota = text("cpu", "cpu.stat") ?? "";
  return {
    userNanoseconds: scaled(valueOf(times, "user"), nanosecondsPerTick),
    systemNanoseconds: scaled(valueOf(times, "system"), nanosecondsPerTick),
    periods: valueOf(quota, "nr_periods"),
    throttledPeriods: valueOf(quota, "nr_throttled"),
    throttledNanoseconds: valueOf(quota, "throttled_time"),
  };
}

function readDetailsV2(stat: string): CpuDetails {
  return {
    userNanoseconds: scaled(valueOf(stat, "user_usec"), 1000),
    systemNanoseconds: scaled(valueOf(stat, "system_usec"), 1000),
    periods: valueOf(stat, "nr_periods"),
    throttledPeriods: valueOf(stat, "nr_throttled"),
    throttledNanoseconds: scaled(valueOf(stat, "throttled_usec"), 1000),
  };
}

function scaled(value: number | undefined, factor: number): number | undefined {
  return value === undefined ? undefined : value * factor;
}
