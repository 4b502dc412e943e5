/** `dockershim pod top`: CPU and memory of pods. */
import type { ContainerStats } from "../../domain/cri.js";
import { shownText } from "../../lib/shown-text.js";
import { formatTable } from "../view/format-table.js";

export interface Usage {
  /** Thousandths of a core; undefined while it is not known. */
  readonly milliCores: number | undefined;
  readonly memoryBytes: number;
}

export interface PodUsage {
  readonly namespace: string;
  readonly name: string;
  readonly containers: readonly (Usage & { readonly name: string })[];
}

/** Servers without a rate report the time that was used: of two answers it is the difference. */
export function usageOf(first: ContainerStats | undefined, second: ContainerStats): Usage {
  const rate = second.cpu?.usage_nano_cores?.value;
  return {
    milliCores: rate !== undefined && rate !== "0" ? Math.ceil(Number(rate) / 1e6) : rateOf(first, second),
    memoryBytes: Number(second.memory?.working_set_bytes?.value ?? 0),
  };
}

function rateOf(first: ContainerStats | undefined, second: ContainerStats): number | undefined {
  const [before, after] = [first?.cpu, second.cpu];
  if (!before?.usage_core_nano_seconds || !after?.usage_core_nano_seconds) return undefined;
  const elapsed = Number(BigInt(after.timestamp) - BigInt(before.timestamp));
  const used = Number(
    BigInt(after.usage_core_nano_seconds.value) - BigInt(before.usage_core_nano_seconds.value),
  );
  return elapsed <= 0 || used < 0 ? undefined : Math.ceil((used / elapsed) * 1000);
}

/** In the order of the pods, or the largest first. */
export function renderUsage(
  pods: readonly PodUsage[],
  { containers, sortBy }: { readonly containers: boolean; readonly sortBy?: "cpu" | "memory" | undefined },
): string {
  const cells = ({ milliCores, memoryBytes }: Usage): readonly string[] => [
    milliCores === undefined ? "-" : `${milliCores}m`,
    `${Math.ceil(memoryBytes / 1024 ** 2)}Mi`,
  ];
  const header = ["NAMESPACE", "POD", ...(containers ? ["CONTAINER"] : []), "CPU(cores)", "MEMORY(bytes)"];
  const used = pods.flatMap(({ namespace, name, containers: all }) =>
    containers
      ? all.map((usage) => ({ names: [namespace, name, usage.name], usage }))
      : [{ names: [namespace, name], usage: sum(all) }],
  );
  const sizeOf = ({ milliCores = 0, memoryBytes }: Usage): number =>
    sortBy === "cpu" ? milliCores : memoryBytes;
  if (sortBy !== undefined) used.sort((left, right) => sizeOf(right.usage) - sizeOf(left.usage));
  const rows = used.map(({ names, usage }) => [...names, ...cells(usage)].map(shownText));
  return formatTable([header, ...rows]);
}

function sum(all: readonly Usage[]): Usage {
  const known = all.flatMap(({ milliCores }) => (milliCores === undefined ? [] : [milliCores]));
  return {
    milliCores: known.length === 0 ? undefined : known.reduce((total, each) => total + each, 0),
    memoryBytes: all.reduce((total, { memoryBytes }) => total + memoryBytes, 0),
  };
}
