import { withDeadline } from "../../lib/abort.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import { LruMap } from "../../lib/lru-map.js";
import type { Snapshot } from "../../domain/snapshot.js";

/** A request that may take effect after its call has failed. */
export interface AbandonedRequest {
  /** Whether an inspect shows its effect. */
  readonly hasHappened: (container: Snapshot) => boolean;
  /** Reverts or completes the effect. Ends with its signal. */
  readonly respond: (container: Snapshot, signal: AbortSignal) => Promise<void>;
}

export interface AbandonedRequestsOptions {
  readonly log: Pick<Logger, "info" | "error">;
  /** Milliseconds for each response. */
  readonly timeoutMs: number;
}

/** Beyond this the oldest request is forgotten; the kubelet then removes its effect. */
const capacity = 1_000;

/**
 * Creates and starts whose callers left without an answer. The engine still executes them, a frozen engine
 * minutes later when it resumes. When an inspect shows their effect, it is reverted or completed.
 */
export class AbandonedRequests {
  /** By name or id of the container. */
  readonly #expected = new LruMap<string, AbandonedRequest>(capacity);
  readonly #running = new Set<Promise<void>>();
  readonly #stop = new AbortController();

  constructor(private readonly options: AbandonedRequestsOptions) {}

  /** `look` inspects the container now: the effect may have been seen before this call. */
  expect(
    nameOrId: string,
    request: AbandonedRequest,
    look: (signal: AbortSignal) => Promise<unknown>,
  ): Promise<void> {
    this.#expected.set(nameOrId, request);
    return this.inBackground({ container: nameOrId }, look);
  }

  /** For a new request for the same container. */
  forget(nameOrId: string): void {
    this.#expected.delete(nameOrId);
  }

  /** Called with the result of every inspect, before its caller continues. */
  observe(container: Snapshot): void {
    for (const key of [container.id, container.name]) {
      const request = this.#expected.get(key);
      if (request?.hasHappened(container) !== true) continue;
      this.#expected.delete(key);
      const { id, name } = container;
      this.options.log.info(
        { containerId: id, name },
        "abandoned request took effect, reverting or completing it",
      );
      void this.inBackground({ containerId: id }, (signal) => request.respond(container, signal));
    }
  }

  async stop(): Promise<void> {
    this.#stop.abort(new ShimError("cancelled", "the shim is stopping"));
    await Promise.all(this.#running);
  }

  /** Work that outlives its call, and ends with the program. Never rejects: its error is logged. */
  inBackground(
    fields: Readonly<Record<string, string>>,
    work: (signal: AbortSignal) => Promise<unknown>,
    timeoutMs = this.options.timeoutMs,
  ): Promise<void> {
    const { log } = this.options;
    const running = withDeadline(this.#stop.signal, timeoutMs, "follow up an abandoned request", work)
      .then(
        () => undefined,
        (error: unknown) => {
          if (!this.#stop.signal.aborted)
            log.error({ ...fields, err: messageOf(error) }, "cannot follow up an abandoned request");
        },
      )
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
    return running;
  }
}
