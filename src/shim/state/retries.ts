import { sleep } from "../../lib/abort.js";
import { Backoff, type BackoffTimes } from "../../lib/sync/backoff.js";
import { ShimError } from "../../lib/errors.js";

export interface RetriesDeps {
  /** Before each retry of an id. */
  readonly pausesMs: BackoffTimes;
  /** Whether the work is still needed. */
  readonly isDue: (id: string) => boolean;
  readonly work: (id: string) => Promise<void>;
}

/** Repeats failed work for an id until it succeeds or is not needed any more. One retry per id at a time. */
export class Retries {
  readonly #running = new Map<string, Promise<void>>();
  readonly #reported = new Set<string>();
  readonly #stop = new AbortController();

  constructor(private readonly deps: RetriesDeps) {}

  schedule(id: string): void {
    if (this.#running.has(id) || this.#stop.signal.aborted) return;
    const retrying = this.#retry(id).finally(() => this.#running.delete(id));
    this.#running.set(id, retrying);
  }

  /** Notes a failure, and returns whether it is the first one since the last success. */
  isFirstFailure(id: string): boolean {
    const isFirst = !this.#reported.has(id);
    this.#reported.add(id);
    return isFirst;
  }

  succeeded(id: string): void {
    this.#reported.delete(id);
  }

  async stop(): Promise<void> {
    this.#stop.abort(new ShimError("cancelled", "the shim is stopping"));
    await Promise.all(this.#running.values());
  }

  /** Never rejects: the work reports its own failures. */
  async #retry(id: string): Promise<void> {
    const backoff = new Backoff(this.deps.pausesMs);
    for (;;) {
      try {
        await sleep(backoff.next(), this.#stop.signal);
        if (!this.deps.isDue(id)) return;
        await this.deps.work(id);
        return;
      } catch {
        if (this.#stop.signal.aborted) return;
      }
    }
  }
}
