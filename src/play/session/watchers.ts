/** Waits for conditions that are looked at after each change. */
import { linkAbort } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";

export class Watchers {
  readonly #checks = new Set<() => void>();

  /** Something that a condition may depend on has changed. */
  readonly changed = (): void => {
    for (const check of this.#checks) check();
  };

  /** Resolves when `condition` holds. Rejects when it throws, and when `signal` aborts. */
  async until(signal: AbortSignal, condition: () => boolean): Promise<void> {
    if (signal.aborted) throw ShimError.from(signal.reason);
    await new Promise<void>((resolve, reject) => {
      const end = (settle: () => void): void => {
        this.#checks.delete(check);
        link[Symbol.dispose]();
        settle();
      };
      const check = (): void => {
        try {
          if (condition()) end(resolve);
        } catch (error) {
          end(() => reject(ShimError.from(error)));
        }
      };
      const link = linkAbort(signal, () => end(() => reject(ShimError.from(signal.reason))));
      this.#checks.add(check);
      check();
    });
  }
}
