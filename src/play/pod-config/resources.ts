/** requests and limits → values for the kernel, with the kubelet's formulas. Pure. */
import type { Answer, LinuxContainerResources } from "../../domain/cri.js";
import { parseQuantity } from "../../domain/quantity.js";
import type { Container, EphemeralContainer, PodSpec } from "../manifests/pod-schema.js";

export type QosClass = "Guaranteed" | "Burstable" | "BestEffort";

/** A container, an init container or an ephemeral container. */
export type PodContainer = Container | EphemeralContainer;

/** Quantities by the name of the resource. */
export type Amounts = Readonly<Record<string, string | undefined>>;

/** What the formulas need of the node. */
export interface NodeResources {
  readonly memoryBytes: bigint;
  readonly cgroupVersion: 1 | 2;
  /** Sizes of the kernel's huge pages, in the CRI's form: `2MB`. */
  readonly hugePageSizes: readonly string[];
  /** Whether cgroups of the node limit huge pages. */
  readonly hasHugePageLimits: boolean;
}

/** Thousandths of a core for `cpu`, else bytes. */
export function amountOf(quantity: string | undefined, name: string): bigint | undefined {
  return quantity === undefined ? undefined : parseQuantity(quantity, name === "cpu" ? 1000 : 1);
}

export function isHugePages(name: string): boolean {
  return name.startsWith("hugepages-");
}

function ownLimit({ resources }: PodContainer, name: string): bigint | undefined {
  const limits: Amounts = resources?.limits ?? {};
  const amount = amountOf(limits[name], name);
  return amount === 0n ? undefined : amount;
}

function podLevel(spec: PodSpec, kind: "limits" | "requests", name: string): bigint | undefined {
  const amounts: Amounts = spec.resources?.[kind] ?? {};
  const amount = amountOf(amounts[name], name);
  return amount === 0n ? undefined : amount;
}

/** The container's limit, else the pod's; undefined without both. */
export function limitOf(container: PodContainer, spec: PodSpec, name: string): bigint | undefined {
  return ownLimit(container, name) ?? podLevel(spec, "limits", name);
}

/** A missing request equals the container's own limit; the API server sets that default. */
function ownRequest(container: PodContainer, name: string): bigint | undefined {
  const requests: Amounts = container.resources?.requests ?? {};
  return amountOf(requests[name], name) ?? ownLimit(container, name);
}

export function requestOf(container: PodContainer, name: string): bigint {
  return ownRequest(container, name) ?? 0n;
}

/**
 * What the resources of the pod say, with the defaults of the API server: beside limits of the pod, a missing
 * request is that of its containers, and without those the limit. Huge pages cannot be shared: theirs is
 * always the limit.
 */
function podLevelRequest(spec: PodSpec, name: string): bigint | undefined {
  const given = podLevel(spec, "requests", name);
  if (given !== undefined || Object.keys(spec.resources?.limits ?? {}).length === 0) return given;
  const all = [...(spec.initContainers ?? []), ...spec.containers];
  const isShared = !isHugePages(name) && all.some((one) => ownRequest(one, name) !== undefined);
  return isShared ? sumOf(spec, name, requestOf) : podLevel(spec, "limits", name);
}

/** The request of the whole pod: its own, else the sum of its containers. */
export function podRequest(spec: PodSpec, name: string): bigint {
  return podLevelRequest(spec, name) ?? sumOf(spec, name, requestOf);
}

/** The limit of the whole pod: its own, else the sum of its containers, of which some may have none. */
export function podLimit(spec: PodSpec, name: string): bigint {
  return podLevel(spec, "limits", name) ?? sumOf(spec, name, ownLimit);
}

/** Whether `podLimit` limits the pod: it has a limit itself, or each of its containers has one. */
export function isPodLimited(spec: PodSpec, name: string): boolean {
  if (podLevel(spec, "limits", name) !== undefined) return true;
  let sidecars = 0n;
  for (const container of spec.initContainers ?? []) {
    const sum = sidecars + (ownLimit(container, name) ?? 0n);
    if (sum === 0n) return false;
    if (container.restartPolicy === "Always") sidecars = sum;
  }
  return spec.containers.every((one) => ownLimit(one, name) !== undefined);
}

const computeResources = ["cpu", "memory"] as const;

/** Guaranteed: limits of cpu and memory equal requests. BestEffort: neither. Those of the pod come first. */
export function qosClass(spec: PodSpec): QosClass {
  const { resources } = spec;
  const parts =
    resources === undefined
      ? [...(spec.initContainers ?? []), ...spec.containers].map((one) => ({
          limit: (name: string) => ownLimit(one, name) ?? 0n,
          request: (name: string) => requestOf(one, name),
        }))
      : [
          {
            limit: (name: string) => podLevel(spec, "limits", name) ?? 0n,
            request: (name: string) => podLevelRequest(spec, name) ?? 0n,
          },
        ];
  const all = parts.flatMap(({ limit, request }) =>
    computeResources.map((name) => ({ limit: limit(name), request: request(name) })),
  );
  if (all.every(({ limit, request }) => limit === 0n && request === 0n)) return "BestEffort";
  return all.every(({ limit, request }) => limit > 0n && limit === request) ? "Guaranteed" : "Burstable";
}

const cpuPeriodMicros = 100_000n;

/** The CRI resources of a container. */
export function linuxResources(
  container: PodContainer,
  spec: PodSpec,
  node: NodeResources,
): Answer<LinuxContainerResources> {
  const requests: Amounts = container.resources?.requests ?? {};
  const cpuLimit = limitOf(container, spec, "cpu") ?? 0n;
  const values = {
    // Without a request, also the pod's limit counts.
    cpuRequest: amountOf(requests["cpu"], "cpu") ?? cpuLimit,
    cpuLimit,
    memoryLimit: limitOf(container, spec, "memory") ?? 0n,
  };
  const hugePages = node.hugePageSizes.flatMap((page_size) => {
    const limit = limitOf(container, spec, hugePagesName(page_size));
    // Where nothing enforces a limit, CRI-O cannot even create a container with a limit of 0.
    if (limit === undefined && !node.hasHugePageLimits) return [];
    return [{ page_size, limit: String(limit ?? 0n) }];
  });
  return {
    ...cgroupValues(values),
    oom_score_adj: String(oomScoreAdj(container, spec, node.memoryBytes)),
    hugepage_limits: hugePages,
    // When one process runs out of memory, the kernel ends all of the container, as with a kubelet.
    ...(node.cgroupVersion === 2 ? { unified: { "memory.oom.group": "1" } } : {}),
  };
}

/** `2MB` → `hugepages-2Mi` */
export function hugePagesName(size: string): string {
  return `hugepages-${size.replace(/B$/, "i")}`;
}

/** What the whole pod may use, for runtimes that make a virtual machine of a pod. */
export function sandboxResources(spec: PodSpec): Answer<LinuxContainerResources> {
  return cgroupValues({
    cpuRequest: podRequest(spec, "cpu"),
    cpuLimit: podLimit(spec, "cpu"),
    memoryLimit: podLimit(spec, "memory"),
  });
}

type AmountOfContainer = (container: PodContainer, name: string) => bigint | undefined;

/** Containers and sidecars run beside each other, an init container beside the sidecars before it. */
function sumOf(spec: PodSpec, name: string, amount: AmountOfContainer): bigint {
  let sidecars = 0n;
  let duringInit = 0n;
  for (const container of spec.initContainers ?? []) {
    const own = amount(container, name) ?? 0n;
    if (container.restartPolicy === "Always") sidecars += own;
    const now = container.restartPolicy === "Always" ? sidecars : sidecars + own;
    if (now > duringInit) duringInit = now;
  }
  const running = spec.containers.reduce((sum, one) => sum + (amount(one, name) ?? 0n), sidecars);
  return running > duringInit ? running : duringInit;
}

/** The memory limit of the pod in bytes; undefined when one of its containers has none and the pod has none either. */
export function podMemoryLimit(spec: PodSpec): bigint | undefined {
  const own = podLevel(spec, "limits", "memory");
  if (own !== undefined) return own;
  const containers = [...(spec.initContainers ?? []), ...spec.containers];
  if (containers.some((one) => ownLimit(one, "memory") === undefined)) return undefined;
  return sumOf(spec, "memory", ownLimit);
}

function cgroupValues(values: {
  readonly cpuRequest: bigint;
  readonly cpuLimit: bigint;
  readonly memoryLimit: bigint;
}): Answer<LinuxContainerResources> {
  return {
    cpu_period: String(cpuPeriodMicros),
    cpu_quota: String(cpuQuota(values.cpuLimit)),
    cpu_shares: String(cpuShares(values.cpuRequest)),
    memory_limit_in_bytes: String(values.memoryLimit),
  };
}

/** 1024 per core, between the kernel's 2 and 262144. */
export function cpuShares(millis: bigint): bigint {
  return clamp((millis * 1024n) / 1000n, 2n, 262_144n);
}

/** Microseconds per 100 ms: 0 is no limit, and the kernel takes no less than 1 ms. */
export function cpuQuota(millis: bigint): bigint {
  if (millis === 0n) return 0n;
  return clamp((millis * cpuPeriodMicros) / 1000n, 1000n, 2n ** 62n);
}

/** As the kubelet: the kernel kills a Burstable container later whose request is a larger part of the memory. */
function oomScoreAdj(container: PodContainer, spec: PodSpec, nodeBytes: bigint): bigint {
  const qos = qosClass(spec);
  if (qos === "Guaranteed" || spec.priorityClassName !== undefined) return -997n;
  if (qos === "BestEffort") return 1000n;
  const all = [...(spec.initContainers ?? []), ...spec.containers];
  const request = podLevelRequest(spec, "memory");
  const rest = request === undefined ? 0n : request - sumOf(spec, "memory", requestOf);
  const share = rest > 0n ? rest / BigInt(all.length) : 0n;
  const score = (own: bigint): bigint => 1000n - (1000n * (own + share)) / nodeBytes;
  let result = score(requestOf(container, "memory"));
  if (
    container.restartPolicy === "Always" &&
    (spec.initContainers ?? []).some(({ name }) => name === container.name)
  ) {
    const requests = spec.containers.map((one) => requestOf(one, "memory"));
    const lowest = score(requests.reduce((least, one) => (one < least ? one : least), requests[0] ?? 0n));
    if (lowest < result) result = lowest;
  }
  return clamp(result, 3n, 999n);
}

function clamp(value: bigint, minimum: bigint, maximum: bigint): bigint {
  if (value < minimum) return minimum;
  return value > maximum ? maximum : value;
}
