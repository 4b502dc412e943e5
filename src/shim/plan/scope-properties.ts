/**
 * Limits as properties of a systemd scope. With the systemd driver the cgroup of a container is a scope. With
 * cgroup v2 systemd writes the properties of the scope into its files whenever it loads its units again
 * (`systemctl daemon-reload`), and resets those that other programs have written.
 */
import { type DockerResources, scopePropertyPrefix } from "../../domain/create-body.js";
import type { Labels } from "../../domain/labels.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import type { ResourceSnapshot } from "../../domain/snapshot.js";
import type { CgroupSettings } from "../ports/host.js";

type Unified = CgroupSettings["unified"];

export interface ScopeProperty {
  /** Its name in D-Bus and in annotations. */
  readonly name: string;
  /** As `systemctl set-property` takes it. */
  readonly assignment: string;
  /** As the annotation of a new container takes it; undefined for one that only `set-property` can set. */
  readonly annotation?: string;
}

export function systemdResetsCgroups({
  cgroupDriver,
  cgroupVersion,
}: Pick<NodeFacts, "cgroupDriver" | "cgroupVersion">): boolean {
  return cgroupDriver === "systemd" && cgroupVersion === 2;
}

/**
 * Those that stand for `unified`, as runc makes them of an OCI specification. systemd has none, or none of the
 * same meaning, for the other files, as `memory.oom.group`. Values that systemd would refuse have none, too.
 */
export function scopeProperties(unified: Unified): readonly ScopeProperty[] {
  return Object.entries(unified).flatMap(([file, value]) => propertiesOf.get(file)?.(value.trim()) ?? []);
}

const propertiesOf: ReadonlyMap<string, (value: string) => readonly ScopeProperty[]> = new Map(
  Object.entries({
    "memory.min": (value: string) => uint64("MemoryMin", value, { least: 0n }),
    "memory.low": (value: string) => uint64("MemoryLow", value, { least: 0n }),
    "memory.high": (value: string) => uint64("MemoryHigh", value, { least: 1n }),
    "memory.max": (value: string) => uint64("MemoryMax", value, { least: 1n }),
    "memory.swap.max": (value: string) => uint64("MemorySwapMax", value, { least: 0n }),
    "pids.max": (value: string) => uint64("TasksMax", value, { least: 1n }),
    "cpu.weight": (value: string) => (/^[1-9]\d{0,3}$|^10000$/.test(value) ? uint64("CPUWeight", value) : []),
    "cpu.max": cpuQuota,
    "cpuset.cpus": (value: string) => cpuset("AllowedCPUs", value),
    "cpuset.mems": (value: string) => cpuset("AllowedMemoryNodes", value),
  }),
);

/** systemd's value for "no limit". */
const unlimited = 2n ** 64n - 1n;

function uint64(name: string, value: string, { least } = { least: 0n }): readonly ScopeProperty[] {
  if (value === "max") return [{ name, assignment: `${name}=infinity`, annotation: `uint64 ${unlimited}` }];
  const number = /^\d{1,20}$/.test(value) ? BigInt(value) : -1n;
  if (number < least || number > unlimited) return [];
  return [{ name, assignment: `${name}=${number}`, annotation: `uint64 ${number}` }];
}

const defaultPeriod = 100_000n;

/** `quota [period]` in microseconds. systemd counts in whole percents of a processor, rounded up. */
function cpuQuota(value: string): readonly ScopeProperty[] {
  const [, quota, period = String(defaultPeriod)] = /^(max|\d{1,15})(?: +(\d{1,15}))?$/.exec(value) ?? [];
  if (quota === undefined || BigInt(period) === 0n || quota === "0") return [];
  const name = "CPUQuotaPerSecUSec";
  const percent = (BigInt(quota === "max" ? 0 : quota) * 100n + BigInt(period) - 1n) / BigInt(period);
  const ofQuota =
    quota === "max"
      ? { name, assignment: "CPUQuota=", annotation: `uint64 ${unlimited}` }
      : { name, assignment: `CPUQuota=${percent}%`, annotation: `uint64 ${percent * 10_000n}` };
  // Not known to systemd before 242: a container with such an annotation would not start there.
  const ofPeriod = { name: "CPUQuotaPeriodUSec", assignment: `CPUQuotaPeriodSec=${period}us` };
  return BigInt(period) === defaultPeriod ? [ofQuota] : [ofQuota, ofPeriod];
}

function cpuset(name: string, value: string): readonly ScopeProperty[] {
  return /^[\d,-]+$/.test(value) ? [{ name, assignment: `${name}=${value}` }] : [];
}

/** `unified` as annotations of a new container, but for what the runtime overwrites by Docker's own fields. */
export function scopeAnnotations(unified: Unified, resources: DockerResources, facts: NodeFacts): Labels {
  if (!systemdResetsCgroups(facts)) return {};
  const taken = setByRuntime(resources);
  const { Memory: memory = 0, MemorySwap: memorySwap = 0 } = resources;
  return Object.fromEntries(
    scopeProperties({ ...lostLimits({ memory, memorySwap }), ...unified }).flatMap(({ name, annotation }) =>
      annotation === undefined || taken.has(name) ? [] : [[scopePropertyPrefix + name, annotation] as const],
    ),
  );
}

/** A limit that the runtime writes and makes no property of: the swap of a container that may not swap. */
export function lostLimits({ memory, memorySwap }: Pick<ResourceSnapshot, "memory" | "memorySwap">): Unified {
  return memory > 0 && memorySwap === memory ? { "memory.swap.max": "0" } : {};
}

function setByRuntime(resources: DockerResources): ReadonlySet<string> {
  const { CpuPeriod = 0, CpuQuota = 0, CpuShares = 0, Memory = 0, MemorySwap = 0 } = resources;
  return new Set([
    ...(CpuShares !== 0 ? ["CPUWeight"] : []),
    ...(CpuPeriod !== 0 || CpuQuota !== 0 ? ["CPUQuotaPerSecUSec"] : []),
    ...(Memory !== 0 ? ["MemoryMax"] : []),
    ...(MemorySwap !== 0 && MemorySwap !== Memory ? ["MemorySwapMax"] : []),
  ]);
}
