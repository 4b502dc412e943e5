import { orAbort } from "../lib/abort.js";
import { ShimError } from "../lib/errors.js";
import type { NodeFacts } from "../domain/node-facts.js";

/** Whether the read model mirrors the engine. */
export type LinkState =
  /** Subscribed and synchronised. */
  | { readonly phase: "live"; readonly facts: NodeFacts }
  /** The engine answers; the model is being filled. */
  | { readonly phase: "recovering"; readonly facts: NodeFacts | undefined }
  /** The engine does not answer; `reason` is for people. */
  | { readonly phase: "lost"; readonly reason: ShimError };

/** The state of the link to the engine, and waiting for it. Written by StateSync alone. */
export class EngineLink {
  #state: LinkState = { phase: "recovering", facts: undefined };
  #waiters: (() => void)[] = [];

  /** @param patienceMs How long a read waits for a link that is coming up before it fails. */
  constructor(private readonly patienceMs = 5_000) {}

  get state(): LinkState {
    return this.#state;
  }

  set(state: LinkState): void {
    this.#state = state;
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const wake of waiters) wake();
  }

  /**
   * Returns when the model is live. Waits a little while it recovers; fails `unavailable` when the engine is lost,
   * rather than let anybody believe that a dead engine has no pods.
   */
  async live(signal: AbortSignal): Promise<NodeFacts> {
    // The way of every list and status call: no timers, no allocation.
    const { state } = this;
    if (state.phase === "live") return state.facts;
    const patience = AbortSignal.timeout(this.patienceMs);
    const either = AbortSignal.any([signal, patience]);
    for (;;) {
      const now = this.state;
      if (now.phase === "live") return now.facts;
      if (now.phase === "lost") {
        throw new ShimError("unavailable", now.reason.message, {}, { cause: now.reason });
      }
      if (patience.aborted)
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
