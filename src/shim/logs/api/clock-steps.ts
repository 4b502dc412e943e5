/** Detects a clock that was set back: of this system while it runs, of the engine by its newest entries. */
import { beforeSecond, marginSeconds, newline, readLines, secondIn, type ApiLog } from "./replay.js";

const checkIntervalMs = 10_000;
/** Smaller corrections do not disturb the order of lines. */
const smallestStepMs = 1_000;

/** One timer for all listeners, and none without listeners. */
export class ClockSteps {
  readonly #listeners = new Set<() => void>();
  #timer: NodeJS.Timeout | undefined;
  #differenceMs = 0;

  constructor(private readonly everyMs = checkIntervalMs) {}

  /** Returns a function that removes the listener. */
  onSetBack(listener: () => void): () => void {
    this.#listeners.add(listener);
    if (this.#timer === undefined) {
      this.#differenceMs = difference();
      this.#timer = setInterval(() => {
        this.#check();
      }, this.everyMs).unref();
    }
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    };
  }

  #check(): void {
    const before = this.#differenceMs;
    this.#differenceMs = difference();
    if (before - this.#differenceMs < smallestStepMs) return;
    for (const listener of [...this.#listeners]) listener();
  }
}

function difference(): number {
  return Date.now() - performance.now();
}

/** Engines read them from the end of the log. A clock that was set back before them is not noticed. */
const newestEntries = 100;

/**
 * The second from which a replay has all lines since the clock was set back to before `since`. That shows in
 * two of the newest entries, in the newest one alone, or in `last`, the last written line. Undefined when a
 * replay from `since` has all lines.
 */
export async function setBackTo(
  { engine, containerId, tty }: ApiLog,
  { since, last }: { readonly since: number; readonly last: Buffer | undefined },
  signal: AbortSignal,
): Promise<number | undefined> {
  // A replay of everything has every line.
  if (since === 0) return undefined;
  const options = { sinceSeconds: 0, follow: false, tty, tail: newestEntries };
  const stream = await engine.containerLogs(containerId, options, signal);
  const newest = new NewestEntries();
  try {
    await readLines(stream, { losesLineEnds: false }, (lines) => {
      newest.add(lines);
      return Promise.resolve();
    });
  } finally {
    stream.close();
  }
  const seconds = [newest.oldestAfterStep, newest.last, last && secondIn(last)];
  const oldest = Math.min(...seconds.filter((second) => second !== undefined));
  if (oldest >= since) return undefined;
  // Only the entries around the step show how far the clock was set back.
  return newest.oldestAfterStep === undefined ? 0 : beforeSecond(oldest);
}

class NewestEntries {
  oldestAfterStep: number | undefined;
  last: number | undefined;
  #newest = 0;

  add(lines: Buffer): void {
    for (let start = 0; start < lines.length; start = lines.indexOf(newline, start) + 1) {
      const second = secondIn(lines.subarray(start));
      if (second === 0) continue;
      if (second < this.#newest - marginSeconds) {
        this.oldestAfterStep = Math.min(this.oldestAfterStep ?? second, second);
      }
      this.#newest = Math.max(this.#newest, second);
      this.last = second;
    }
  }
}
