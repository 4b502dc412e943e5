/** Detects a clock that was set back: of this system while it runs, of the engine by its newest entries. */
import { linesIn, marginSeconds, readLines, secondIn, type ApiLog } from "./replay.js";

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

/** Whether a replay from `since` lacks newer lines, by two of the newest entries or the newest alone. */
export async function lacksNewest(
  { engine, containerId, tty }: ApiLog,
  since: number,
  signal: AbortSignal,
): Promise<boolean> {
  // A replay of everything has every line.
  if (since === 0) return false;
  const options = { sinceSeconds: 0, follow: false, tty, tail: newestEntries };
  const stream = await engine.containerLogs(containerId, options, signal);
  const seen = { newest: 0, last: 0, isLacking: false };
  try {
    await readLines(stream, { tty, losesLineEnds: false }, (lines) => {
      for (const line of linesIn(lines)) {
        seen.last = secondIn(line);
        seen.isLacking ||= seen.last < since && seen.last < seen.newest - marginSeconds;
        seen.newest = Math.max(seen.newest, seen.last);
      }
      return Promise.resolve();
    });
  } finally {
    stream.close();
  }
  return seen.isLacking || (seen.newest > 0 && seen.last < since);
}
