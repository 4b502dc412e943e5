import { orAbort } from "../../lib/abort.js";

/** Calls that wait for a container which the read model does not have yet, or not anew. */
export class Arrivals {
  readonly #waiting = new Map<string, Set<() => void>>();

  /** The read model has just written the container, or removed it. */
  noticed(id: string): void {
    for (const wake of this.#waiting.get(id) ?? []) wake();
    this.#waiting.delete(id);
  }

  /** Resolves at the next `noticed`. Throws only the reason of `signal`. */
  async next(id: string, signal: AbortSignal): Promise<void> {
    const waiting = this.#waiting.get(id) ?? new Set();
    let wake!: () => void;
    const noticed = new Promise<void>((resolve) => (wake = resolve));
    this.#waiting.set(id, waiting.add(wake));
    try {
      await orAbort(noticed, signal);
    } finally {
      waiting.delete(wake);
      if (waiting.size === 0 && this.#waiting.get(id) === waiting) this.#waiting.delete(id);
    }
  }
}
