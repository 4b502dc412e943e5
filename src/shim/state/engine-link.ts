import { orAbort } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";
import { noteWait } from "../../lib/waits.js";
import type { NodeFacts } from "../../domain/node-facts.js";

/** Whether the read model mirrors the engine. */
export type LinkState =
  /** Subscribed and synchronised. */
  | { readonly phase: "live"; readonly facts: NodeFacts }
  /** The engine answers; the model is being filled. */
  | { readonly phase: "recovering"; readonly facts: NodeFacts | undefined }
  /** The engine does not answer. */
  | { readonly phase: "lost"; readonly reason: ShimError };

export interface LinkLoss {
  readonly reason: ShimError;
  /** Since the Unix epoch. */
  readonly atMs: number;
}

/** The state of the link to the engine, and waiting for it. Written by StateSync alone. */
export class EngineLink {
  #state: LinkState = { phase: "recovering", facts: undefined };
  #sinceMs = Date.now();
  #lastLoss: LinkLoss | undefined;
  #waiters: (() => void)[] = [];

  /** @param waitMs How long a read waits for a recovering link before it fails. */
  constructor(private readonly waitMs = 5_000) {}

  get state(): LinkState {
    return this.#state;
  }

  /** When the present phase began, in milliseconds since the Unix epoch. */
  get sinceMs(): number {
    return this.#sinceMs;
  }

  /** The latest failed connect or broken link; undefined when there was none. */
  get lastLoss(): LinkLoss | undefined {
    return this.#lastLoss;
  }

  set(state: LinkState): void {
    const nowMs = Date.now();
    if (state.phase !== this.#state.phase) this.#sinceMs = nowMs;
    if (state.phase === "lost") this.#lastLoss = { reason: state.reason, atMs: nowMs };
    this.#state = state;
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const wake of waiters) wake();
  }

  /**
   * Returns when the model is live. Waits a while for a recovering link; fails `unavailable` when the engine
   * is lost: an empty list would tell the kubelet that its pods are gone.
   */
  async live(signal: AbortSignal): Promise<NodeFacts> {
    // Every list and status call comes here: no timers, no allocation.
    const { state } = this;
    if (state.phase === "live") return state.facts;
    const timeout = AbortSignal.timeout(this.waitMs);
    using _noted = noteWait(signal, { action: "the state of the Docker Engine to be read" });
    const either = AbortSignal.any([signal, timeout]);
    for (;;) {
      const now = this.state;
      if (now.phase === "live") return now.facts;
      if (now.phase === "lost")
        throw new ShimError("unavailable", now.reason.message, {}, { cause: now.reason });
      if (timeout.aborted)
        throw new ShimError("unavailable", "the state of the Docker Engine is still being read");
      try {
        await orAbort(new Promise<void>((wake) => this.#waiters.push(wake)), either);
      } catch (error) {
        if (signal.aborted) throw error;
      }
    }
  }

  /** The facts when live, without waiting. */
  get facts(): NodeFacts | undefined {
    return this.#state.phase === "lost" ? undefined : this.#state.facts;
  }
}
