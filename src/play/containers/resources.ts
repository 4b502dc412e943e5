/** requests and limits → values for the kernel, with the kubelet's formulas. */
import type { Answer, LinuxContainerResources } from "../../shim/domain/cri.js";
import type { Container, PodSpec } from "../manifests/pod-schema.js";
import { parseQuantity } from "../../shim/domain/quantity.js";

export type QosClass = "Guaranteed" | "Burstable" | "BestEffort";

interface Amounts {
  readonly cpuMillis: bigint;
  readonly memoryBytes: bigint;
}

function limitsOf(container: Container): Amounts {
  const { cpu, memory } = container.resources?.limits ?? {};
  return {
    cpuMillis: parseQuantity(cpu ?? "0", 1000) ?? 0n,
    memoryBytes: parseQuantity(memory ?? "0", 1) ?? 0n,
  };
}

/** A missing request equals the limit; the API server sets that default. */
function requestsOf(container: Container): Amounts {
  const { cpu, memory } = container.resources?.requests ?? {};
  const limits = limitsOf(container);
  return {
    cpuMillis: cpu === undefined ? limits.cpuMillis : (parseQuantity(cpu, 1000) ?? 0n),
    memoryBytes: memory === undefined ? limits.memoryBytes : (parseQuantity(memory, 1) ?? 0n),
  };
}

/** Guaranteed: all requests equal their limits, for cpu and memory. BestEffort: no requests and no limits. */
export function qosClass(spec: PodSpec): QosClass {
  const containers = [...(spec.initContainers ?? []), ...spec.containers];
  const isZero = ({ cpuMillis, memoryBytes }: Amounts): boolean => cpuMillis === 0n && memoryBytes === 0n;
  if (containers.every((container) => isZero(limitsOf(container)) && isZero(requestsOf(container)))) {
    return "BestEffort";
  }
  const guaranteed = containers.every((container) => {
    const [limits, requests] = [limitsOf(container), requestsOf(container)];
    const limited = limits.cpuMillis > 0n && limits.memoryBytes > 0n;
    return limited && limits.cpuMillis === requests.cpuMillis && limits.memoryBytes === requests.memoryBytes;
  });
  return guaranteed ? "Guaranteed" : "Burstable";
}

const cpuPeriodMicros = 100_000n;

/** The CRI resources of a container on a node with `nodeMemoryBytes` of memory. */
export function linuxResources(
  container: Container,
  qos: QosClass,
  nodeMemoryBytes: bigint,
): Answer<LinuxContainerResources> {
  const limits = limitsOf(container);
  const requests = requestsOf(container);
  return {
    cpu_period: String(cpuPeriodMicros),
    cpu_quota: String(cpuQuota(limits.cpuMillis)),
    cpu_shares: String(cpuShares(requests.cpuMillis)),
    memory_limit_in_bytes: String(limits.memoryBytes),
    oom_score_adj: String(oomScoreAdj(qos, requests.memoryBytes, nodeMemoryBytes)),
  };
}

/** 1024 per core, between the kernel's 2 and 262144. */
function cpuShares(millis: bigint): bigint {
  return clamp((millis * 1024n) / 1000n, 2n, 262_144n);
}

/** Microseconds per period: 0 is no limit, and the kernel takes no less than 1 ms. */
function cpuQuota(millis: bigint): bigint {
  if (millis === 0n) return 0n;
  return clamp((millis * cpuPeriodMicros) / 1000n, 1000n, 2n ** 62n);
}

/** The kernel kills a Burstable container later if its request is a larger part of the node's memory. */
function oomScoreAdj(qos: QosClass, requestBytes: bigint, nodeMemoryBytes: bigint): bigint {
  if (qos === "Guaranteed") return -997n;
  if (qos === "BestEffort") return 1000n;
  return clamp(1000n - (1000n * requestBytes) / nodeMemoryBytes, 3n, 999n);
}

function clamp(value: bigint, minimum: bigint, maximum: bigint): bigint {
  if (value < minimum) return minimum;
  return value > maximum ? maximum : value;
}
