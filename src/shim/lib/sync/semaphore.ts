import { listen } from "../abort.js";
import { ShimError } from "../errors.js";

/**
 * At most `places` holders at a time, the others wait in order of arrival. Node's own limit (`maxSockets` of an agent)
 * does not do: a request that waits there does not notice that its caller left.
 */
export class Gate {
  #free: number;
  readonly #waiters = new Set<() => void>();

  constructor(places: number) {
    this.#free = places;
  }

  /** Runs `work` in one of the places. Leaves the queue at once, with the reason of `signal`, when that aborts. */
  async run<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    await this.#enter(signal);
    try {
      return await work();
    } finally {
      this.#leave();
    }
  }

  async #enter(signal: AbortSignal): Promise<void> {
    if (signal.aborted) throw ShimError.from(signal.reason);
    if (this.#free > 0) {
      this.#free -= 1;
      return;
    }
    await new Promise<void>((resolve, reject) => {
      const admit = (): void => {
        signal.removeEventListener("abort", onAbort);
        resolve();
      };
      const onAbort = (): void => {
        this.#waiters.delete(admit);
        reject(ShimError.from(signal.reason));
      };
      this.#waiters.add(admit);
      listen(signal, onAbort);
    });
  }

  /** Hands the place to whoever waits longest. */
  #leave(): void {
    for (const admit of this.#waiters) {
      this.#waiters.delete(admit);
      admit();
      return;
    }
    this.#free += 1;
  }
}
