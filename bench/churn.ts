/** What a server holds while pods come and go, with faults where they are wanted, and how soon it is ready. */
import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connectCri } from "../test/support/cri-client.js";
import { ShimProcess } from "../test/support/shim-process.js";
import type { TestBed } from "../test/support/test-bed.js";
import { creationWidth, removeBenchPods, removePodCgroups, startBenchPods } from "./bench-pods.js";
import { Faults, makeFaultyNode } from "./churn-faults.js";
import { figuresOfNode, figuresOfServer, type Figures } from "./churn-figures.js";
import { Lives } from "./churn-lives.js";
import { callAsKubelet } from "./kubelet-calls.js";
import { inParallel, say } from "./measure.js";
import { cpuSecondsOf, residentMebibytesOf } from "./process-usage.js";
import { loadNow, machine } from "./report.js";
import type { BenchOptions } from "./options.js";

/** `pods` stay all the time, `churn` come and go. */
type ChurnOptions = Pick<BenchOptions, "pods" | "flags" | "faults" | "restartEngine"> & {
  readonly churn: number;
};

interface Sample {
  /** Pods that have come and gone. */
  readonly churned: number;
  /** Of the process that is sampled: figures of two processes do not belong to one line. */
  readonly pid: number;
  readonly figures: Figures;
}

export type ChurnReport = Awaited<ReturnType<typeof benchChurn>>;

const settleMs = 15_000;
/** Without and with faults. */
const sampleCounts = { calm: 20, faulty: 40 };
const widths = { calm: creationWidth, faulty: 12 };
/**
 * Between the end of a batch and its sample: garbage is collected when there is time. With faults longer than the 10 s
 * for which files of ended containers stay open for their statistics.
 */
const pausesMs = { calm: 2_000, faulty: 12_000 };
const retryMs = 200;
const starts = 5;
const readyTimeoutMs = 30_000;
const pollMs = 5;
/** What calls have left undone is undone in the background. */
const undoneTimeoutMs = 120_000;

export async function benchChurn(options: ChurnOptions, bed: TestBed) {
  const { pods, churn, faults: faulty } = options;
  const before = loadNow();
  const directory = await mkdtemp(join(bed.directory, "churn-"));
  const metrics = join(directory, "metrics.sock");
  const node = faulty ? await makeFaultyNode(bed, directory) : undefined;
  const flags = [`--metrics-bind-address=unix://${metrics}`, ...(node?.flags ?? []), ...options.flags];
  const places = { stateDirectory: join(directory, "state"), network: node?.network };
  const empty = await figuresOfNode(places);
  const first = await bed.startShim({ directory, flags });
  const sampleCount = faulty ? sampleCounts.faulty : sampleCounts.calm;
  const batch = Math.max(Math.ceil(churn / sampleCount), 1);
  const faults = new Faults(
    {
      directory,
      batches: Math.ceil(churn / batch),
      restartEngine: options.restartEngine,
      start: () => bed.startShim({ directory, flags }),
      startEarly: () => bed.startShimWithoutEngine({ directory, flags }),
    },
    first,
  );
  using cri = connectCri(first.socket);
  const lives = new Lives(bed, cri);
  const end = new AbortController();
  const calling = keepCalling(first.socket, end.signal, { faulty });
  calling.catch(() => undefined);
  await sleep(settleMs);
  const idleMebibytes = residentMebibytesOf(first.pid);
  const staying = await startBenchPods(bed, cri, pods);
  const stayingIds = new Set(staying.map(({ pod }) => pod.id));
  await sleep(settleMs);
  const withPodsMebibytes = residentMebibytesOf(first.pid);

  say(`churn of ${String(churn)} pods`);
  const cpu = cpuSecondsOf(first.pid);
  const startMs = performance.now();
  const samples: Sample[] = [];
  let late = 0;
  const take = async (churned: number): Promise<void> => {
    const { pid } = faults.shim;
    const figures = { ...(await figuresOfServer(pid, metrics)), ...(await figuresOfNode(places)) };
    samples.push({ churned, pid, figures });
    const seconds = Math.round((performance.now() - startMs) / 1000);
    say(`${String(churned)} pods after ${String(seconds)} s: ${JSON.stringify(figures)}`);
  };
  await take(0);
  for (let done = 0, index = 0; done < churn; index += 1) {
    const count = Math.min(batch, churn - done);
    const faultsOfBatch = faulty ? faults.during(index) : Promise.resolve();
    faultsOfBatch.catch(() => undefined);
    await inSlots(count, faulty ? widths.faulty : widths.calm, (one, slot) => lives.live(done + one, slot));
    await faultsOfBatch;
    done += count;
    late += await lives.removeLate(stayingIds);
    await Promise.race([sleep(faulty ? pausesMs.faulty : pausesMs.calm), calling]);
    await take(done);
    if (faulty) say(JSON.stringify({ ...faults.counts, ...Object.fromEntries(lives.failures), late }));
  }
  const seconds = (performance.now() - startMs) / 1000;
  const cpuSecondsPerPod = faulty ? NaN : (cpuSecondsOf(first.pid) - cpu) / churn;
  await Promise.race([sleep(settleMs), calling]);
  const settledMebibytes = residentMebibytesOf(faults.shim.pid);
  end.abort();
  await calling;
  await faults.shim.stop();

  say(`${String(starts)} starts with ${String(pods)} pods`);
  const readyMs: number[] = [];
  for (let start = 0; start < starts; start += 1) readyMs.push(await timeToReady(directory, flags));
  const last = await bed.startShim({ directory, flags });
  await removeBenchPods(staying, cri);
  late += await lives.removeLate(new Set());
  const left = await untilEmpty(places, empty, last);
  return {
    ...{ machine: await machine(), load: [before, loadNow()], pods, churn, faulty, seconds },
    /** Resident memory without pods, and with those that stay. */
    ...{ idleMebibytes, withPodsMebibytes },
    samples,
    /** As long after the churn as the others are after what was made before them. */
    settledMebibytes,
    /** From the start of the process until Status says ready, with the pods there; each start. */
    readyMs,
    /** Of the shim, for each pod that came and went. */
    cpuSecondsPerPod,
    faults: faults.counts,
    failures: Object.fromEntries(lives.failures),
    /** Pods that were listed only after their lives. */
    late,
    /** Before the first pod and after the last. */
    ...{ empty, left },
  };
}

/** `width` at a time; `slot` is another one for each of those. */
async function inSlots(
  count: number,
  width: number,
  work: (index: number, slot: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  await inParallel(Math.min(width, count), width, async (slot) => {
    while (next < count) await work(next++, slot);
  });
}

/** With faults, calls may fail. */
async function keepCalling(
  socket: string,
  signal: AbortSignal,
  { faulty }: { readonly faulty: boolean },
): Promise<void> {
  while (!signal.aborted) {
    try {
      await callAsKubelet(socket, { metrics: true }, signal);
    } catch (error) {
      if (!faulty) throw error;
      await sleep(retryMs);
    }
  }
}

/** The node when it is as before, or at the end of the time. The server has ended then. */
async function untilEmpty(
  places: Parameters<typeof figuresOfNode>[0],
  empty: Figures,
  server: ShimProcess,
): Promise<Figures> {
  const deadlineMs = performance.now() + undoneTimeoutMs;
  const kept = (figures: Figures): boolean =>
    Object.entries(figures).some(
      ([title, value]) => title !== "processes of the node" && value > (empty[title] ?? 0),
    );
  while (kept(await figuresOfNode(places)) && performance.now() < deadlineMs) await sleep(retryMs);
  await server.stop();
  await removePodCgroups();
  return figuresOfNode(places);
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
