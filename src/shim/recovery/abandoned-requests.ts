import { withDeadline } from "../lib/abort.js";
import { messageOf, ShimError } from "../lib/errors.js";
import type { Logger } from "../lib/log.js";
import { LruMap } from "../lib/lru-map.js";
import type { Snapshot } from "../domain/snapshot.js";

/** What a request may do after its caller was told that it failed. */
export interface AbandonedRequest {
  /** Whether that is what a fresh inspect shows. */
  readonly hasHappened: (container: Snapshot) => boolean;
  /** Undoes or completes it. Ends with its signal. */
  readonly respond: (container: Snapshot, signal: AbortSignal) => Promise<void>;
}

export interface AbandonedRequestsOptions {
  readonly log: Pick<Logger, "info" | "error">;
  /** Milliseconds for each response. */
  readonly timeoutMs: number;
}

/** More are not expected at once; the oldest is forgotten first, and kubelets clean up after it. */
const capacity = 1_000;

/**
 * Creates and starts whose caller left without an answer. The engine goes on with them, and an engine that was frozen
 * begins with them when it goes on, minutes later: what they do then is undone or completed when it is seen.
 */
export class AbandonedRequests {
  /** By name or id of the container. */
  readonly #expected = new LruMap<string, AbandonedRequest>(capacity);
  readonly #running = new Set<Promise<void>>();
  readonly #stop = new AbortController();

  constructor(private readonly options: AbandonedRequestsOptions) {}

  /** `look` has the container inspected now, because that may have been seen before it was expected. */
  expect(
    nameOrId: string,
    effect: AbandonedRequest,
    look: (signal: AbortSignal) => Promise<unknown>,
  ): Promise<void> {
    this.#expected.set(nameOrId, effect);
    return this.#inBackground({ container: nameOrId }, look);
  }

  /** A new request for the same container takes over. */
  forget(nameOrId: string): void {
    this.#expected.delete(nameOrId);
  }

  /** Told of every inspect, before its caller goes on. */
  observe(container: Snapshot): void {
    for (const key of [container.id, container.name]) {
      const effect = this.#expected.get(key);
      if (effect?.hasHappened(container) !== true) continue;
      this.#expected.delete(key);
      const { id, name } = container;
      this.options.log.info({ containerId: id, name }, "the engine did what nobody waited for any longer");
      void this.#inBackground({ containerId: id }, (signal) => effect.respond(container, signal));
    }
  }

  async stop(): Promise<void> {
    this.#stop.abort(new ShimError("cancelled", "the shim is stopping"));
    await Promise.all(this.#running);
  }

  /** Never rejects. */
  #inBackground(
    fields: Readonly<Record<string, string>>,
    work: (signal: AbortSignal) => Promise<unknown>,
  ): Promise<void> {
    const { log, timeoutMs } = this.options;
    const running = withDeadline(this.#stop.signal, timeoutMs, "follow up a request without an answer", work)
      .then(
        () => undefined,
        (error: unknown) => {
          if (!this.#stop.signal.aborted)
            log.error({ ...fields, err: messageOf(error) }, "cannot follow up a request without an answer");
        },
      )
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
    return running;
  }
}
