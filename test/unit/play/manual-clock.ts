import type { Clock } from "../../../src/play/kubelet/clock.js";
import { turns } from "../../fakes/turns.js";

/** Time that stands still until a test advances it. */
export class ManualClock implements Clock {
  #now = 1_700_000_000_000;
  #stepMs = 0;
  readonly #timers = new Set<{ readonly at: number; readonly callback: () => void }>();

  now(): number {
    return this.#now + this.#stepMs;
  }

  uptime(): number {
    return this.#now;
  }

  /** Sets the clock on, or back. No time passes. */
  step(milliseconds: number): void {
    this.#stepMs += milliseconds;
  }

  after(milliseconds: number, callback: () => void): () => void {
    const timer = { at: this.#now + Math.max(0, milliseconds), callback };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Calls what is due in order, and lets each finish what it can. */
  async advance(milliseconds: number): Promise<void> {
    const end = this.#now + milliseconds;
    await turns(20);
    for (;;) {
      const due = [...this.#timers].filter(({ at }) => at <= end).sort((left, right) => left.at - right.at);
      const [next] = due;
      if (next === undefined) break;
      this.#timers.delete(next);
      this.#now = Math.max(this.#now, next.at);
      next.callback();
      await turns(20);
    }
    this.#now = end;
  }
}
