import { orAbort } from "../abort.js";

/** Many readers, or one writer, which does not hold up new readers: a plugin that hangs stops no pod. */
export class ReadWriteLock {
  #readers = 0;
  #writer: Promise<void> | undefined;
  #waitingWriters: (() => void)[] = [];

  async read<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    while (this.#writer !== undefined) await orAbort(this.#writer, signal);
    signal.throwIfAborted();
    this.#readers += 1;
    try {
      return await work();
    } finally {
      this.#readers -= 1;
      if (this.#readers === 0) this.#wake();
    }
  }

  async write<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    while (this.#readers > 0 || this.#writer !== undefined) {
      await orAbort(
        new Promise<void>((resolve) => {
          this.#waitingWriters.push(resolve);
        }),
        signal,
      );
    }
    signal.throwIfAborted();
    let end!: () => void;
    this.#writer = new Promise<void>((resolve) => {
      end = resolve;
    });
    try {
      return await work();
    } finally {
      this.#writer = undefined;
      end();
      this.#wake();
    }
  }

  #wake(): void {
    const woken = this.#waitingWriters;
    this.#waitingWriters = [];
    for (const wake of woken) wake();
  }
}
