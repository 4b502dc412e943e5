/**
 * The cgroup of a pod: its name and its limits, by the kubelet's rules. Pure.
 *
 * All cgroups of pods are side by side in one of play's own. A kubelet has classes above them, which change
 * nothing here: the CPU shares of Burstable are the sum of its pods, and Guaranteed pods have no class.
 */
import type { CgroupDriverName } from "../cri/client.js";
import type { PodSpec } from "../manifests/pod-schema.js";
import {
  type NodeResources,
  amountOf,
  cpuQuota,
  cpuShares,
  hugePagesName,
  isHugePages,
  isPodLimited,
  podLimit,
  podRequest,
  qosClass,
} from "./resources.js";

/** The engine's driver, when play makes cgroups for its pods; else why it makes none. */
export type PodCgroups =
  { readonly driver: CgroupDriverName } | { readonly driver?: undefined; readonly reason: string };

/** What play gives to the cgroup of a pod. Undefined: no limit. */
export interface PodCgroup {
  /** See `podId`. */
  readonly id: string;
  readonly driver: CgroupDriverName;
  readonly cpuShares: bigint;
  /** Microseconds per `cpuPeriodMicros`. */
  readonly cpuQuotaMicros: bigint | undefined;
  readonly memoryBytes: bigint | undefined;
  /** By the size of the pages, in the kernel's form: `2MB`. */
  readonly hugePages: readonly { readonly size: string; readonly limitBytes: bigint }[];
}

export const cpuPeriodMicros = 100_000n;

/** The names of a cgroup of systemd are those of all slices above it, so that it has no hyphen of its own. */
const parents = { cgroupfs: "dockershim-play", systemd: "dockershimplay" } as const;

/** The cgroup that holds those of all pods, from the root of the hierarchy. */
export function cgroupOfPods(driver: CgroupDriverName): string {
  return driver === "cgroupfs" ? `/${parents.cgroupfs}` : `/${parents.systemd}.slice`;
}

/** The slice of a pod, by its `podId`. A hyphen would be a level of slices: systemd's names have `_` for it. */
export function podSlice(id: string): string {
  return `${parents.systemd}-pod${id.replaceAll("-", "_")}.slice`;
}

/** The path of the pod's cgroup from the root of the hierarchy, as `cgroup_parent` of the CRI has it. */
export function podCgroupPath(id: string, driver: CgroupDriverName): string {
  return `${cgroupOfPods(driver)}/${driver === "cgroupfs" ? `pod${id}` : podSlice(id)}`;
}

/** Shares are the requests; CPU and memory are limited when the pod is, or all of its containers are. */
export function podCgroup(
  id: string,
  spec: PodSpec,
  driver: CgroupDriverName,
  node: Pick<NodeResources, "hugePageSizes">,
): PodCgroup {
  const isBestEffort = qosClass(spec) === "BestEffort";
  const limit = (name: string): bigint | undefined =>
    !isBestEffort && isPodLimited(spec, name) ? podLimit(spec, name) : undefined;
  const cpuLimit = limit("cpu");
  const hasHugePages = Object.entries(spec.resources?.limits ?? {}).some(
    ([name, quantity]) => isHugePages(name) && (amountOf(quantity, name) ?? 0n) > 0n,
  );
  const hugePages = node.hugePageSizes.map((size) => ({
    size,
    limitBytes: podRequest(spec, hugePagesName(size)),
  }));
  return {
    id,
    driver,
    cpuShares: cpuShares(isBestEffort ? 0n : podRequest(spec, "cpu")),
    cpuQuotaMicros: cpuLimit === undefined ? undefined : cpuQuota(cpuLimit),
    memoryBytes: limit("memory"),
    hugePages: hasHugePages ? hugePages : [],
  };
}

/** Shares from 2 to 262144 as a weight from 1 to 10000. */
export function cpuWeight(shares: bigint): bigint {
  return 1n + ((shares - 2n) * 9999n) / 262_142n;
}

/** Whether the pod has limits that only a cgroup of its own enforces as they are written. */
export function needsPodCgroup({ resources }: PodSpec): boolean {
  return Object.entries(resources?.limits ?? {}).some(
    ([name, quantity]) => (amountOf(quantity, name) ?? 0n) > 0n,
  );
}
