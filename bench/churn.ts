/** Memory while pods come and go, and how soon the program is ready when pods are there. */
import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ShimProcess } from "../test/support/shim-process.js";
import type { TestBed } from "../test/support/test-bed.js";
import { creationWidth, removeBenchPods, startBenchPod, startBenchPods } from "./bench-pods.js";
import { callAsKubelet } from "./kubelet-calls.js";
import { inParallel, say } from "./measure.js";
import { cpuSecondsOf, descriptorsOf, residentMebibytesOf } from "./process-usage.js";
import { coreCount, loadLine, loadNow } from "./report.js";
import type { BenchOptions } from "./options.js";

/** `pods` stay all the time, `churn` come and go. */
type ChurnOptions = Pick<BenchOptions, "pods" | "flags"> & { readonly churn: number };

interface Sample {
  /** Pods that have come and gone. */
  readonly churned: number;
  readonly residentMebibytes: number;
  readonly descriptors: number;
}

export type ChurnReport = Awaited<ReturnType<typeof benchChurn>>;

const settleMs = 15_000;
const sampleCount = 20;
/** Between the end of a batch and its sample: garbage is collected when there is time. */
const pauseMs = 2_000;
const starts = 5;
const readyTimeoutMs = 30_000;
const pollMs = 5;

export async function benchChurn({ pods, churn, flags }: ChurnOptions, bed: TestBed) {
  const before = loadNow();
  const directory = await mkdtemp(join(bed.directory, "churn-"));
  const shim = await bed.startShim({ directory, flags });
  const end = new AbortController();
  const calling = callAsKubelet(shim.socket, { metrics: true }, end.signal);
  calling.catch(() => undefined);
  await sleep(settleMs);
  const idleMebibytes = residentMebibytesOf(shim.pid);
  const staying = await startBenchPods(bed, shim.cri, pods);
  await sleep(settleMs);
  const withPodsMebibytes = residentMebibytesOf(shim.pid);
  say(`churn of ${String(churn)} pods`);
  const cpu = cpuSecondsOf(shim.pid);
  const samples: Sample[] = [];
  const take = (churned: number): void => {
    const sample = {
      churned,
      residentMebibytes: residentMebibytesOf(shim.pid),
      descriptors: descriptorsOf(shim.pid),
    };
    samples.push(sample);
    say(
      `${String(churned)} pods: ${sample.residentMebibytes.toFixed(1)} MiB, ${String(sample.descriptors)} files`,
    );
  };
  take(0);
  const batch = Math.max(Math.ceil(churn / sampleCount), 1);
  for (let done = 0; done < churn;) {
    const count = Math.min(batch, churn - done);
    await inParallel(count, creationWidth, async (index) => {
      const { pod } = await startBenchPod(bed, shim.cri, `churn${String(done + index)}`);
      await pod[Symbol.asyncDispose]();
    });
    done += count;
    await Promise.race([sleep(pauseMs), calling]);
    take(done);
  }
  const cpuSecondsPerPod = (cpuSecondsOf(shim.pid) - cpu) / churn;
  await Promise.race([sleep(settleMs), calling]);
  const settledMebibytes = residentMebibytesOf(shim.pid);
  end.abort();
  await calling;
  await shim.stop();

  say(`${String(starts)} starts with ${String(pods)} pods`);
  const readyMs: number[] = [];
  for (let start = 0; start < starts; start += 1) readyMs.push(await timeToReady(directory, flags));
  const last = await bed.startShim({ directory, flags });
  await removeBenchPods(staying, last.cri);
  await last.stop();
  return {
    ...{ cores: coreCount(), load: [before, loadNow()], pods, churn },
    /** Resident memory without pods, and with those that stay. */
    ...{ idleMebibytes, withPodsMebibytes },
    samples,
    /** As long after the churn as the others are after what was made before them. */
    settledMebibytes,
    /** Least squares over the samples of each half of the churn, for 1,000 pods. */
    slopeMebibytes: [
      slopeOf(samples.filter(({ churned }) => churned <= churn / 2)),
      slopeOf(samples.filter(({ churned }) => churned >= churn / 2)),
    ] as const,
    /** From the start of the process until Status says ready, with the pods there; each start. */
    readyMs,
    /** Of the shim, for each pod that came and went. */
    cpuSecondsPerPod,
  };
}

/** From the start of the process until Status has both conditions met. */
async function timeToReady(directory: string, flags: readonly string[]): Promise<number> {
  const startMs = performance.now();
  await using shim = await ShimProcess.startWithoutEngine({ directory, flags });
  while (performance.now() - startMs < readyTimeoutMs) {
    const { status } = await shim.cri.Status({});
    if (status?.conditions.every((condition) => condition.status) === true) {
      const tookMs = performance.now() - startMs;
      await shim.stop();
      return tookMs;
    }
    await sleep(pollMs);
  }
  throw new Error(`not ready after ${String(readyTimeoutMs)} ms:\n${shim.log}`);
}

/** MiB for 1,000 pods. */
function slopeOf(samples: readonly Sample[]): number {
  const mean = (values: readonly number[]): number =>
    values.reduce((sum, value) => sum + value, 0) / values.length;
  const x = mean(samples.map(({ churned }) => churned));
  const y = mean(samples.map(({ residentMebibytes }) => residentMebibytes));
  const along = samples.reduce((sum, { churned }) => sum + (churned - x) ** 2, 0);
  const together = samples.reduce(
    (sum, { churned, residentMebibytes }) => sum + (churned - x) * (residentMebibytes - y),
    0,
  );
  return (together / along) * 1000;
}

export function formatChurn(report: ChurnReport): string {
  const { cores, load, pods, churn, idleMebibytes, withPodsMebibytes } = report;
  const { samples, settledMebibytes, slopeMebibytes } = report;
  const [first, second] = slopeMebibytes;
  const last = samples.at(-1);
  const highest = Math.max(...samples.map(({ residentMebibytes }) => residentMebibytes));
  const mebibytes = (value: number | undefined): string => `${(value ?? NaN).toFixed(1)} MiB`;
  return [
    loadLine(cores, load),
    `${String(pods)} pods that stay and ${String(churn)} that come and go; lists each second, Status every 5 s, statistics and metrics every 10 s`,
    "",
    "| what | |",
    "| --- | --- |",
    `| resident memory without pods | ${mebibytes(idleMebibytes)} |`,
    `| with ${String(pods)} pods | ${mebibytes(withPodsMebibytes)} |`,
    `| with ${String(pods)} pods, after ${String(churn)} others | ${mebibytes(settledMebibytes)} |`,
    `| with ${String(pods)} pods, 2 s after the last of them | ${mebibytes(last?.residentMebibytes)} |`,
    `| highest sample | ${mebibytes(highest)} |`,
    `| slope for 1,000 pods, first half | ${mebibytes(first)} |`,
    `| slope for 1,000 pods, second half | ${mebibytes(second)} |`,
    `| open files at the end | ${String(last?.descriptors ?? NaN)} |`,
    `| CPU per pod that came and went | ${(report.cpuSecondsPerPod * 1000).toFixed(0)} ms |`,
    `| ready after, each of ${String(report.readyMs.length)} starts | ${report.readyMs.map((value) => value.toFixed(0)).join(", ")} ms |`,
    "",
  ].join("\n");
}
