/** Pauses between attempts: the first one, then each twice as long as the one before, up to the longest. */

/** In milliseconds. */
export interface BackoffTimes {
  readonly first: number;
  readonly longest: number;
}

export class Backoff {
  #nextMs: number;

  constructor(private readonly times: BackoffTimes) {
    this.#nextMs = times.first;
  }

  /** The pause before the next attempt, in milliseconds. */
  next(): number {
    const pauseMs = this.#nextMs;
    this.#nextMs = Math.min(pauseMs * 2, this.times.longest);
    return pauseMs;
  }

  /** After a success: the next pause is the first one again. */
  reset(): void {
    this.#nextMs = this.times.first;
  }
}

/** Work that is tried again by a timer, with a back-off. */
export class RetryTimer {
  readonly #backoff: Backoff;
  #timer: NodeJS.Timeout | undefined;
  #failures = 0;

  constructor(times: BackoffTimes) {
    this.#backoff = new Backoff(times);
  }

  /** How often the work failed in a row. */
  get failures(): number {
    return this.#failures;
  }

  /** Schedules `work` after the next pause, in place of what was scheduled. Keeps no process alive. */
  failed(work: () => void): void {
    this.cancel();
    this.#failures += 1;
    this.#timer = setTimeout(work, this.#backoff.next());
    this.#timer.unref();
  }

  succeeded(): void {
    this.cancel();
    this.#failures = 0;
    this.#backoff.reset();
  }

  cancel(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
