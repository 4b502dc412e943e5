import { linkAbort } from "../abort.js";
import { ShimError } from "../errors.js";
import { noteWait } from "../waits.js";

/**
 * At most `permits` holders, the others in order of arrival. Node's `maxSockets` is no substitute: a request
 * that waits there does not notice that its caller left.
 */
export class Semaphore {
  #free: number;
  readonly #waiters = new Set<() => void>();

  constructor(private readonly permits: number) {
    this.#free = permits;
  }

  /** Runs `work` with a permit. Leaves the queue at once, with the reason of `signal`, when that aborts. */
  async run<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    await this.#acquire(signal);
    try {
      return await work();
    } finally {
      this.#release();
    }
  }

  async #acquire(signal: AbortSignal | undefined): Promise<void> {
    if (signal?.aborted === true) throw ShimError.from(signal.reason);
    if (this.#free > 0) {
      this.#free -= 1;
      return;
    }
    using _noted = signal && noteWait(signal, { action: () => `one of ${this.permits} places` });
    await new Promise<void>((resolve, reject) => {
      const admit = (): void => {
        link[Symbol.dispose]();
        resolve();
      };
      this.#waiters.add(admit);
      const link = linkAbort(signal, () => {
        this.#waiters.delete(admit);
        reject(ShimError.from(signal?.reason));
      });
    });
  }

  /** Hands the permit to the waiter that came first. */
  #release(): void {
    for (const admit of this.#waiters) {
      this.#waiters.delete(admit);
      admit();
      return;
    }
    this.#free += 1;
  }
}

/** One holder at a time, in order of arrival. Work that waits never leaves. */
export class Lock {
  readonly #one = new Semaphore(1);

  run<T>(work: () => Promise<T>): Promise<T> {
    return this.#one.run(undefined, work);
  }
}
