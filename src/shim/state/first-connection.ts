import { isKind, type ShimError } from "../../lib/errors.js";
import type { NodeFacts } from "../../domain/node-facts.js";

/** Whether the engine was reached for the first time, or can never be served. */
export class FirstConnection {
  readonly live: Promise<NodeFacts>;
  readonly failed: Promise<never>;
  #resolve!: (facts: NodeFacts) => void;
  #reject!: (error: ShimError) => void;
  #everLive = false;

  constructor() {
    this.live = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    this.failed = new Promise((_, reject) => {
      this.#reject = reject;
    });
    this.failed.catch(() => undefined); // Also when no caller waits for it.
  }

  wentLive(facts: NodeFacts): void {
    this.#everLive = true;
    this.#resolve(facts);
  }

  /** An engine that can never be served is a reason not to start; one that was exchanged later may come back. */
  connectFailed(error: ShimError): "stop" | "retry" {
    if (this.#everLive || !isKind(error, "precondition", "invalid")) return "retry";
    this.#reject(error);
    return "stop";
  }
}
