/** What a comparison of CRI servers has found, as tables. */
import type { Figures, Row } from "./ratios.js";
import { alignedTable } from "./report.js";

export interface ServersReport {
  readonly machine: { readonly cores: number; readonly node: string; readonly engine: string };
  /** Load average of a minute at the begin and the end. */
  readonly load: readonly [number, number];
  readonly servers: readonly {
    readonly name: string;
    readonly socket: string;
    readonly pid: number | null;
    /** While another server was measured. */
    readonly suspended: boolean;
    /** Of one of its pods; empty without a pod network. */
    readonly podAddress: string;
  }[];
  /** Of the shim. */
  readonly flags: readonly string[];
  readonly pods: number;
  readonly starts: number;
  readonly bursts: number;
  readonly reads: number;
  readonly rows: readonly Row[];
}

/** A table for each server that the first one is compared with. */
export function formatServers(report: ServersReport): string {
  const { machine, load, servers, flags, pods, starts, bursts, reads, rows } = report;
  const stopped = servers.filter(({ suspended }) => suspended).map(({ name }) => name);
  return [
    `${String(machine.cores)} cores, Node.js ${machine.node}, Docker Engine ${machine.engine}, ` +
      `load average ${load.map((value) => value.toFixed(1)).join(" to ")}`,
    `${String(starts)} rounds of calls, ${String(bursts)} bursts, ${String(reads)} reads, ${String(pods)} running pods`,
    ...servers.flatMap(({ name, socket, podAddress }, index) => [
      `${name}: ${socket}, ${podAddress === "" ? "no pod network" : `pod address ${podAddress}`}`,
      ...(index === 0 ? flags.map((flag) => `  ${flag}`) : []),
    ]),
    `stopped while another server is measured: ${stopped.length === 0 ? "none" : stopped.join(", ")}`,
    ...servers.slice(1).flatMap(({ name }) => ["", ...tableOf(rows, name)]),
    "",
  ].join("\n");
}

export function tableOf(rows: readonly Row[], other: string): readonly string[] {
  const cells = rows.map(({ title, unit, center, figures }) => {
    const [first] = figures;
    const own = figures.find(({ server }) => server === other);
    const text = (figure: Figures | undefined): string =>
      figure === undefined || Number.isNaN(figure[center])
        ? "-"
        : center === "mean"
          ? digits(figure.mean)
          : figure.values.length === 1
            ? digits(figure.median)
            : `${digits(figure.median)} (${digits(figure.p95)})`;
    const { ratio = NaN, quartiles = [NaN, NaN] as const } = own?.ratio ?? {};
    const spread = quartiles.map(ratioText).join(" to ");
    return [
      `${title}, ${unit}`,
      text(first),
      text(own),
      ratioText(ratio),
      quartiles.some(Number.isNaN) || (own?.values.length ?? 0) <= 1 ? "-" : spread,
    ];
  });
  const header = [
    "median (p95), mean of CPU",
    rows[0]?.figures[0]?.server ?? "",
    other,
    "ratio",
    "quartiles",
  ];
  return alignedTable([header, ...cells]);
}

/** Infinite: the other server took nothing. */
function ratioText(ratio: number): string {
  return Number.isNaN(ratio) ? "-" : ratio === Infinity ? "∞" : ratio.toFixed(2);
}

function digits(value: number): string {
  return value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2);
}
