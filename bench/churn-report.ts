/** What a churn has found, as tables. */
import type { ChurnReport } from "./churn.js";
import { loadLine } from "./report.js";

/** Samples of the last process that are not on the line: its caches fill. */
const warmUpShare = 0.1;

export function formatChurn(report: ChurnReport): string {
  const { machine, load, pods, churn, seconds, readyMs, faulty } = report;
  const mebibytes = (value: number): string => `${value.toFixed(1)} MiB`;
  const times = readyMs.map((value) => value.toFixed(0)).join(", ");
  const highest = Math.max(...report.samples.map(({ figures }) => figures["resident memory, MiB"] ?? NaN));
  return [
    loadLine(machine.cores, load),
    `Node.js ${machine.node}, Docker Engine ${machine.engine}`,
    `${String(pods)} pods that stay and ${String(churn)} that come and go, in ${seconds.toFixed(0)} s; lists each second, Status every 5 s, statistics and metrics every 10 s`,
    "",
    "| what | |",
    "| --- | --- |",
    `| resident memory without pods | ${mebibytes(report.idleMebibytes)} |`,
    `| with ${String(pods)} pods | ${mebibytes(report.withPodsMebibytes)} |`,
    `| with ${String(pods)} pods, after ${String(churn)} others | ${mebibytes(report.settledMebibytes)} |`,
    `| highest sample | ${mebibytes(highest)} |`,
    ...(faulty
      ? []
      : [`| CPU per pod that came and went | ${(report.cpuSecondsPerPod * 1000).toFixed(0)} ms |`]),
    `| ready after, each of ${String(readyMs.length)} starts | ${times} ms |`,
    ...Object.entries(report.faults).map(([fault, count]) => `| ${fault} | ${String(count)} times |`),
    ...Object.entries(report.failures)
      .sort(([one], [other]) => one.localeCompare(other))
      .map(([call, count]) => `| failed: ${call} | ${String(count)} |`),
    `| sandboxes that only a list without a filter had | ${String(report.late)} |`,
    "",
    ...lines(report),
    "",
    ...remains(report),
    "",
  ].join("\n");
}

/** One process alone, after its first pods. */
function lines({ samples, churn }: ChurnReport): readonly string[] {
  const pid = samples.at(-1)?.pid;
  const own = samples.filter((sample) => sample.pid === pid);
  const from = (own[0]?.churned ?? 0) + churn * warmUpShare;
  const fitted = own.filter(({ churned }) => churned >= from);
  const title = `pods ${String(fitted[0]?.churned)} to ${String(fitted.at(-1)?.churned)}`;
  return [
    `${title}, ${String(fitted.length)} samples of one process while no pod comes or goes`,
    "",
    "| | first | last | slope for 1,000 pods | standard error | |",
    "| --- | --- | --- | --- | --- | --- |",
    ...Object.keys(fitted[0]?.figures ?? {}).map((name) => {
      const values = fitted.map(({ churned, figures }) => ({ x: churned / 1000, y: figures[name] ?? NaN }));
      const line = fitLine(values);
      const verdict = isLevel(line) ? "level" : Number.isNaN(line.slope) ? "" : "not level";
      const cells = [values[0]?.y, values.at(-1)?.y].map((value = NaN) => figure(value));
      return `| ${name} | ${[...cells, line.slope.toFixed(3), line.standardError.toFixed(3), verdict].join(" | ")} |`;
    }),
  ];
}

function remains({ empty, left }: ChurnReport): readonly string[] {
  return [
    "| | before the first pod | after the last |",
    "| --- | --- | --- |",
    ...Object.keys(empty).map(
      (name) => `| ${name} | ${figure(empty[name] ?? NaN)} | ${figure(left[name] ?? NaN)} |`,
    ),
  ];
}

function figure(value: number): string {
  return Number.isNaN(value) ? "-" : Number.isInteger(value) ? String(value) : value.toFixed(1);
}

/** A straight line through figures that should not grow. */
interface Point {
  readonly x: number;
  readonly y: number;
}

interface Line {
  readonly slope: number;
  /** Of the slope: the points scatter around the line by chance. */
  readonly standardError: number;
}

/** Least squares. NaN for less than three points, whose scatter cannot be told. */
export function fitLine(points: readonly Point[]): Line {
  if (points.length < 3) return { slope: NaN, standardError: NaN };
  const meanX = meanOf(points.map(({ x }) => x));
  const meanY = meanOf(points.map(({ y }) => y));
  const along = sumOf(points.map(({ x }) => (x - meanX) ** 2));
  const slope = sumOf(points.map(({ x, y }) => (x - meanX) * (y - meanY))) / along;
  const scatter = sumOf(points.map(({ x, y }) => (y - meanY - slope * (x - meanX)) ** 2));
  return { slope, standardError: Math.sqrt(scatter / (points.length - 2) / along) };
}

/** Growth that chance explains: a line of that scatter is as steep in one of twenty runs without any growth. */
export function isLevel({ slope, standardError }: Line): boolean {
  return Math.abs(slope) <= 2 * standardError;
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

function meanOf(values: readonly number[]): number {
  return sumOf(values) / values.length;
}
