/** CPU time of a cgroup. */
import type { CpuReading } from "../../domain/resource-reading.js";
import { type CgroupText, KeyedText, numberIn, pressureIn } from "./values.js";

/** cpuacct.stat counts in hundredths of a second on every architecture (USER_HZ). */
const nanosecondsPerTick = 10_000_000;

/**
 * Undefined when the cgroup is gone or has no accounting. `details` reads what only metrics show, where that is wanted. Pressure is
 * of version 2, also on hosts that have both.
 */
export function readCpu(text: CgroupText, details: CgroupText | undefined): CpuReading | undefined {
  const v1 = numberIn(text("cpuacct", "cpuacct.usage"));
  if (v1 !== undefined) {
    const reading = { usageNanoseconds: v1, pressure: pressureIn(text("", "cpu.pressure")) };
    return details === undefined ? reading : { ...reading, ...readDetailsV1(details) };
  }
  const stat = new KeyedText(text("", "cpu.stat") ?? "");
  const usage = stat.value("usage_usec");
  if (usage === undefined) return undefined;
  const reading = { usageNanoseconds: usage * 1000, pressure: pressureIn(text("", "cpu.pressure")) };
  return details === undefined ? reading : { ...reading, ...readDetailsV2(stat) };
}

type CpuDetails = Omit<CpuReading, "usageNanoseconds" | "pressure">;

function readDetailsV1(text: CgroupText): CpuDetails {
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

function readDetailsV2(stat: KeyedText): CpuDetails {
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
