import { orAbort } from "../abort.js";

/**
 * Many at once, or one alone. The one that wants to be alone waits for a quiet moment and does not hold up newcomers
 * until it has found one: a plugin that hangs must not stop the work of all pods because a clean-up waits behind it.
 */
export class SharedLock {
  #sharing = 0;
  #alone: Promise<void> | undefined;
  #quiet: (() => void)[] = [];

  async shared<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    while (this.#alone !== undefined) await orAbort(this.#alone, signal);
    signal.throwIfAborted();
    this.#sharing += 1;
    try {
      return await work();
    } finally {
      this.#sharing -= 1;
      if (this.#sharing === 0) this.#wake();
    }
  }

  async exclusive<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    while (this.#sharing > 0 || this.#alone !== undefined) {
      await orAbort(
        new Promise<void>((resolve) => {
          this.#quiet.push(resolve);
        }),
        signal,
      );
    }
    signal.throwIfAborted();
    let end!: () => void;
    this.#alone = new Promise<void>((resolve) => {
      end = resolve;
    });
    try {
      return await work();
    } finally {
      this.#alone = undefined;
      end();
      this.#wake();
    }
  }

  #wake(): void {
    const woken = this.#quiet;
    this.#quiet = [];
    for (const wake of woken) wake();
  }
}
