import { orAbort } from "../abort.js";
import { describeWaits, noteWait } from "../waits.js";

/**
 * One lock per key: at most one holder at a time, waiters in order of arrival. A free lock takes no memory.
 *
 * A caller of several locks takes them in the order name → sandbox id → container id → network attachment:
 * two callers with opposite orders would deadlock. A caller holds only one lock of each kind.
 */
export class KeyedMutex {
  readonly #tails = new Map<string, Promise<void>>();
  /** The signals of the holders, for what is said of those that wait. */
  readonly #holders = new Map<string, AbortSignal>();

  /** Runs `work` alone under the lock of `key`. An abort while waiting leaves the others in order. */
  async run<T>(key: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const tailBefore = this.#tails.get(key);
    const previous = tailBefore ?? Promise.resolve();
    let release!: () => void;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const tail = previous.then(() => held);
    this.#tails.set(key, tail);
    void tail.then(() => {
      if (this.#tails.get(key) !== tail) return;
      this.#tails.delete(key);
      this.#holders.delete(key);
    });
    try {
      if (tailBefore === undefined) await orAbort(previous, signal);
      else await this.#wait(key, previous, signal);
      this.#holders.set(key, signal);
      return await work();
    } finally {
      release();
    }
  }

  async #wait(key: string, previous: Promise<void>, signal: AbortSignal): Promise<void> {
    const action = (): string => `the lock of ${JSON.stringify(key)}`;
    const detail = (depth: number): string => {
      const holder = this.#holders.get(key);
      const its = holder === undefined ? [] : describeWaits(holder, depth);
      return its.length === 0 ? "" : `whose holder waits for: ${its.join(", ")}`;
    };
    using _noted = noteWait(signal, { action, detail, kind: "lock" });
    await orAbort(previous, signal);
  }

  /** Number of locks that are held or waited for. */
  get size(): number {
    return this.#tails.size;
  }
}
