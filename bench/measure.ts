/** Timing contenders side by side. */
import { summaryOf } from "./ratios.js";

/** Flags of Node.js for a CPU profile in that directory. */
export function profiling(directory: string | undefined): readonly string[] {
  return directory === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${directory}`];
}

/** Tells who runs the bench how far it is. */
export function say(line: string): void {
  process.stderr.write(`bench: ${line}\n`);
}

export interface Contender {
  readonly name: string;
  /** What is timed; answers what `after` needs. */
  readonly run: () => Promise<unknown>;
  /** Takes back what `run` did, untimed. */
  readonly after?: (made: unknown) => Promise<void>;
}

export interface Timing {
  readonly name: string;
  readonly medianMs: number;
  readonly p95Ms: number;
  /** Median of calls one after the other, as a client makes them, while no other contender leaves work behind. */
  readonly aloneMs?: number;
  /** Of a contender that carries bytes. */
  readonly transfer?: Transfer;
}

/** Means of all rounds, with those that warm up. */
export interface Transfer {
  readonly megabytes: number;
  /** CPU time of the server's process; undefined where it is not known. */
  readonly serverSeconds: number | undefined;
  /** CPU time of the bench, which is the client. */
  readonly clientSeconds: number;
}

/**
 * Each round runs every contender once, in an order that changes from round to round, so that load from outside hits
 * all of them alike. The first rounds are not counted.
 */
export async function race(
  contenders: readonly Contender[],
  rounds: number,
  warmUpRounds: number,
): Promise<readonly Timing[]> {
  const times = new Map<string, number[]>(contenders.map(({ name }) => [name, []]));
  for (let round = -warmUpRounds; round < rounds; round += 1) {
    for (let turn = 0; turn < contenders.length; turn += 1) {
      const contender = contenders[(turn + Math.abs(round)) % contenders.length];
      if (contender === undefined) continue;
      const begin = performance.now();
      const made = await contender.run();
      const tookMs = performance.now() - begin;
      await contender.after?.(made);
      if (round >= 0) times.get(contender.name)?.push(tookMs);
    }
  }
  return contenders.map(({ name }) => {
    const { median: medianMs, p95: p95Ms } = summaryOf(times.get(name) ?? []);
    return { name, medianMs, p95Ms };
  });
}

/** `timings` with the time that each contender takes by itself: its own calls, with nobody's in between. */
export async function withTimesAlone(
  contenders: readonly Contender[],
  timings: readonly Timing[],
  rounds: number,
): Promise<readonly Timing[]> {
  const complete: Timing[] = [];
  for (const timing of timings) {
    const own = contenders.filter(({ name }) => name === timing.name);
    const [alone] = await race(own, rounds, Math.ceil(rounds / 10));
    complete.push({ ...timing, ...(alone === undefined ? {} : { aloneMs: alone.medianMs }) });
  }
  return complete;
}

/** Runs `work` for each of `count` numbers, `width` at a time. */
export async function inParallel(
  count: number,
  width: number,
  work: (index: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const lock = async (): Promise<void> => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: Math.min(width, count) }, lock));
}
