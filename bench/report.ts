/** What a run has found, as a table and as JSON. */
import { cpus, loadavg } from "node:os";
import { dockerJson } from "../test/support/docker.js";
import type { Timing, Transfer } from "./measure.js";

export interface Comparison {
  readonly title: string;
  /** What the raw engine calls are. */
  readonly rawCalls: string;
  /** The first is the shim's; the one named `raw` is the engine's. */
  readonly timings: readonly Timing[];
  /** Requests that the shim made to the engine per call; undefined where it is not counted. */
  readonly engineRequests?: number;
}

export interface Report {
  readonly machine: { readonly cores: number; readonly node: string; readonly engine: string };
  /** Load average of a minute at the begin and the end. */
  readonly load: readonly [number, number];
  readonly pods: number;
  readonly comparisons: readonly Comparison[];
}

export function loadNow(): number {
  return loadavg()[0] ?? NaN;
}

export function coreCount(): number {
  return cpus().length;
}

export async function machine(): Promise<Report["machine"]> {
  const { Version } = (await dockerJson("GET", "/version")) as { Version: string };
  return { cores: coreCount(), node: process.versions.node, engine: Version };
}

/** Median of a contender through the median of the raw calls. */
export function ratioOf({ timings }: Comparison, name: string): number | undefined {
  const of = (one: string): number | undefined => timings.find((timing) => timing.name === one)?.medianMs;
  const own = of(name);
  const raw = of("raw");
  return own === undefined || raw === undefined ? undefined : own / raw;
}

const header = [
  ...["what", "contender", "median ms", "p95 ms", "of raw"],
  ...["median alone ms", "engine requests per call"],
];

/** The first row is the header. */
export function alignedTable(rows: readonly (readonly string[])[]): readonly string[] {
  const [header = []] = rows;
  const widths = header.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const rule = widths.map((width) => "-".repeat(width));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  return [header, rule, ...rows.slice(1)].map(line);
}

/** The first line of a report. */
export function loadLine(cores: number, load: readonly number[]): string {
  return `${String(cores)} cores, load average ${load.map((value) => value.toFixed(1)).join(" to ")},`;
}

export function formatReport({ machine, load, pods, comparisons }: Report): string {
  const carriesBytes = comparisons.some(({ timings }) =>
    timings.some(({ transfer }) => transfer !== undefined),
  );
  const rows = comparisons.flatMap((comparison) =>
    comparison.timings.map(({ name, medianMs, p95Ms, aloneMs, transfer }, index) => [
      index === 0 ? comparison.title : "",
      name === "raw" ? `raw: ${comparison.rawCalls}` : name,
      medianMs.toFixed(2),
      p95Ms.toFixed(2),
      name === "raw" ? "" : formatRatio(ratioOf(comparison, name)),
      aloneMs?.toFixed(2) ?? "",
      index === 0 && comparison.engineRequests !== undefined ? comparison.engineRequests.toFixed(1) : "",
      ...(carriesBytes ? transferCells(transfer, medianMs) : []),
    ]),
  );
  return [
    `${String(machine.cores)} cores, Node.js ${machine.node}, Docker Engine ${machine.engine}, ${String(pods)} running pods,`,
    `load average ${load.map((value) => value.toFixed(1)).join(" to ")}`,
    "",
    ...alignedTable([[...header, ...(carriesBytes ? transferHeader : [])], ...rows]),
    "",
  ].join("\n");
}

const transferHeader = ["MB/s", "CPU of the server s/GB", "CPU of the client s/GB"];

function transferCells(transfer: Transfer | undefined, medianMs: number): readonly string[] {
  if (transfer === undefined) return transferHeader.map(() => "");
  const { megabytes, serverSeconds, clientSeconds } = transfer;
  const perGigabyte = (seconds: number | undefined): string =>
    seconds === undefined ? "" : ((1000 * seconds) / megabytes).toFixed(2);
  return [((1000 * megabytes) / medianMs).toFixed(0), perGigabyte(serverSeconds), perGigabyte(clientSeconds)];
}

function formatRatio(ratio: number | undefined): string {
  return ratio === undefined ? "" : ratio < 0.1 ? ratio.toFixed(3) : ratio.toFixed(2);
}
