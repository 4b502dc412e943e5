import { orAbort } from "../abort.js";

/**
 * One lock per key: at most one holder at a time, waiters in order of arrival. A free lock takes no memory.
 *
 * A caller of several locks takes them in the order name → sandbox id → container id → network attachment:
 * two callers with opposite orders would deadlock. A caller holds only one lock of each kind.
 */
export class KeyedMutex {
  readonly #tails = new Map<string, Promise<void>>();

  /** Runs `work` alone under the lock of `key`. An abort while waiting leaves the others in order. */
  async run<T>(key: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const previous = this.#tails.get(key) ?? Promise.resolve();
    let release!: () => void;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const tail = previous.then(() => held);
    this.#tails.set(key, tail);
    void tail.then(() => {
      if (this.#tails.get(key) === tail) this.#tails.delete(key);
    });
    try {
      await orAbort(previous, signal);
      return await work();
    } finally {
      release();
    }
  }

  /** Number of locks that are held or waited for. */
  get size(): number {
    return this.#tails.size;
  }
}
