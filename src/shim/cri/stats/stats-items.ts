/** Statistics in messages of the CRI, without fields that the source does not have. */
import { nowNanoseconds } from "../../../lib/time.js";
import type { Container } from "../../../domain/container.js";
import type {
  Answer,
  ContainerStats,
  CpuUsage,
  FilesystemUsage,
  IoUsage,
  MemoryUsage,
  NetworkInterfaceUsage,
  NetworkUsage,
  PodSandboxStats,
  ProcessUsage,
  PsiStats,
  SwapUsage,
  UInt64Value,
} from "../../../domain/cri.js";
import type {
  InterfaceReading,
  Pressure,
  PressureShare,
  ResourceReading,
} from "../../../domain/resource-reading.js";
import type { Sandbox } from "../../../domain/sandbox.js";
import type { LayerUsage, PodReading } from "../../ports/stats.js";

/** `layer` lies on the file system that ImageFsInfo names `mountpoint`. */
export function containerStatsItem(
  { id, identity, labels, annotations }: Container,
  reading: ResourceReading | undefined,
  layer: LayerUsage | undefined,
  mountpoint: string,
): Answer<ContainerStats> {
  const attributes = { id, metadata: identity, labels, annotations };
  const writable_layer = layer === undefined ? undefined : writableLayer(layer, mountpoint);
  if (reading === undefined) return { attributes, writable_layer };
  const timestamp = String(reading.timestamp);
  return {
    attributes,
    writable_layer,
    cpu: cpuUsage(timestamp, reading),
    memory: memoryUsage(timestamp, reading),
    swap: swapUsage(timestamp, reading),
    io: ioUsage(timestamp, reading),
  };
}

export function podSandboxStatsItem(
  { id, pod, labels, annotations }: Sandbox,
  { resources, interfaces }: PodReading,
  containers: readonly Answer<ContainerStats>[],
): Answer<PodSandboxStats> {
  const attributes = { id, metadata: pod, labels, annotations };
  const network = interfaces === undefined ? undefined : networkUsage(interfaces);
  if (resources === undefined) return { attributes, linux: { network, containers } };
  const timestamp = String(resources.timestamp);
  return {
    attributes,
    linux: {
      network,
      containers,
      cpu: cpuUsage(timestamp, resources),
      memory: memoryUsage(timestamp, resources),
      process: processUsage(timestamp, resources),
      io: ioUsage(timestamp, resources),
    },
  };
}

function cpuUsage(timestamp: string, { cpu, nanoCores }: ResourceReading): Answer<CpuUsage> | undefined {
  if (cpu === undefined) return undefined;
  return {
    timestamp,
    usage_core_nano_seconds: value(cpu.usageNanoseconds),
    usage_nano_cores: value(nanoCores),
    psi: psiStats(cpu.pressure),
  };
}

function memoryUsage(timestamp: string, { memory }: ResourceReading): Answer<MemoryUsage> | undefined {
  if (memory === undefined) return undefined;
  const { limit, workingSet } = memory;
  return {
    timestamp,
    working_set_bytes: value(workingSet),
    available_bytes: limit === undefined ? undefined : value(Math.max(limit - workingSet, 0)),
    usage_bytes: value(memory.usage),
    rss_bytes: value(memory.rss),
    page_faults: value(memory.pageFaults),
    major_page_faults: value(memory.majorPageFaults),
    psi: psiStats(memory.pressure),
  };
}

function swapUsage(timestamp: string, { memory }: ResourceReading): Answer<SwapUsage> | undefined {
  if (memory?.swap === undefined) return undefined;
  const { swap, swapLimit } = memory;
  return {
    timestamp,
    swap_usage_bytes: value(swap),
    swap_available_bytes: swapLimit === undefined ? undefined : value(Math.max(swapLimit - swap, 0)),
  };
}

function ioUsage(timestamp: string, { ioPressure }: ResourceReading): Answer<IoUsage> | undefined {
  return ioPressure === undefined ? undefined : { timestamp, psi: psiStats(ioPressure) };
}

function processUsage(timestamp: string, { tasks }: ResourceReading): Answer<ProcessUsage> | undefined {
  return tasks === undefined ? undefined : { timestamp, process_count: value(tasks) };
}

function writableLayer(
  { timestamp, usedBytes, inodes }: LayerUsage,
  mountpoint: string,
): Answer<FilesystemUsage> {
  return {
    timestamp: String(timestamp),
    fs_id: { mountpoint },
    used_bytes: value(usedBytes),
    inodes_used: value(inodes),
  };
}

/** The first interface is the default one. */
function networkUsage([first, ...others]: readonly InterfaceReading[]): Answer<NetworkUsage> {
  return {
    timestamp: String(nowNanoseconds()),
    default_interface: first === undefined ? undefined : interfaceUsage(first),
    interfaces: others.map(interfaceUsage),
  };
}

function interfaceUsage({ name, received, transmitted }: InterfaceReading): Answer<NetworkInterfaceUsage> {
  return {
    name,
    rx_bytes: value(received.bytes),
    rx_errors: value(received.errors),
    tx_bytes: value(transmitted.bytes),
    tx_errors: value(transmitted.errors),
  };
}

function psiStats(pressure: Pressure | undefined): Answer<PsiStats> | undefined {
  if (pressure === undefined) return undefined;
  return { Full: psiData(pressure.full), Some: psiData(pressure.some) };
}

/** Total in microseconds, like the kernel and other runtimes. */
function psiData({ totalMicroseconds, avg10, avg60, avg300 }: PressureShare): Answer<PsiStats>["Full"] {
  return { Total: String(totalMicroseconds), Avg10: avg10, Avg60: avg60, Avg300: avg300 };
}

function value(number: number | undefined): Answer<UInt64Value> | undefined {
  // NaN must not make the encoding of the whole message fail.
  return number === undefined || Number.isNaN(number) ? undefined : { value: String(number) };
}
