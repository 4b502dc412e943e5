/** The time of day, with microseconds. */

/**
 * Above this the two clocks have been moved against each other; below it they are only read one after the
 * other.
 */
const toleranceMs = 2;
const lastMicrosecond = 0.999;

/**
 * Follows each correction of the system's clock, and a suspend, which `performance.timeOrigin +
 * performance.now()` does not: the milliseconds are always those of `Date.now()`. Between corrections it does
 * not go back.
 */
export class WallClock {
  #offsetMs = performance.timeOrigin;

  /** In the form of Docker: `2026-01-02T15:04:05.123456000Z`. */
  now(): string {
    const monotonicMs = performance.now();
    const wholeMs = Date.now();
    if (Math.abs(this.#offsetMs + monotonicMs - wholeMs) > toleranceMs)
      this.#offsetMs = wholeMs - monotonicMs;
    const fraction = Math.min(Math.max(this.#offsetMs + monotonicMs - wholeMs, 0), lastMicrosecond);
    const micro = String(Math.floor(fraction * 1000)).padStart(3, "0");
    return `${new Date(wholeMs).toISOString().slice(0, -1)}${micro}000Z`;
  }
}
