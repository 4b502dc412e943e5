/** Work that failed and is tried again by itself: first soon, then ever less often. */

/** In milliseconds; each pause is twice the one before. */
export interface LaterTimes {
  readonly first: number;
  readonly last: number;
}

export class LaterTry {
  #timer: NodeJS.Timeout | undefined;
  #pauseMs: number;
  #failures = 0;

  constructor(private readonly times: LaterTimes) {
    this.#pauseMs = times.first;
  }

  /** How often it failed in a row. */
  get failures(): number {
    return this.#failures;
  }

  /** It failed: `work` comes after a pause, and replaces what was to come. The timer does not keep the process alive. */
  failed(work: () => void): void {
    this.cancel();
    this.#failures += 1;
    this.#timer = setTimeout(work, this.#pauseMs);
    this.#timer.unref();
    this.#pauseMs = Math.min(this.#pauseMs * 2, this.times.last);
  }

  succeeded(): void {
    this.cancel();
    this.#failures = 0;
    this.#pauseMs = this.times.first;
  }

  cancel(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
