import type { Clock } from "../../src/lib/time.js";

/** Time that passes when a test says so. */
export class ManualClock implements Clock {
  #now = 0;
  readonly timers = new Set<{ readonly at: number; readonly work: () => void }>();

  now(): number {
    return this.#now;
  }

  after(milliseconds: number, work: () => void): () => void {
    const timer = { at: this.#now + milliseconds, work };
    this.timers.add(timer);
    return () => void this.timers.delete(timer);
  }

  pass(milliseconds: number): void {
    this.#now += milliseconds;
    for (const timer of [...this.timers]) {
      if (timer.at > this.#now) continue;
      this.timers.delete(timer);
      timer.work();
    }
  }
}
