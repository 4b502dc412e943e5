import { orAbort } from "../abort.js";

/** At most `limit` pieces of work at once; those that wait start in order of arrival. */
export class Slots {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(limit: number) {
    this.#free = limit;
  }

  /** Runs `work` when there is room. An abort while waiting throws its reason. */
  async run<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    await this.#enter(signal);
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }

  async #enter(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#free > 0) {
      this.#free -= 1;
      return;
    }
    let admit!: () => void;
    const admitted = new Promise<void>((resolve) => {
      admit = resolve;
    });
    this.#waiting.push(admit);
    try {
      await orAbort(admitted, signal);
    } catch (error) {
      const place = this.#waiting.indexOf(admit);
      if (place >= 0) this.#waiting.splice(place, 1);
      // It was admitted in the very turn of the abort: the slot goes on to the next.
      else {
        const next = this.#waiting.shift();
        if (next === undefined) this.#free += 1;
        else next();
      }
      throw error;
    }
  }
}
