import type { Duplex } from "node:stream";
import { isKind, messageOf, ShimError } from "../../lib/errors.js";
import type { Snapshot } from "../../domain/snapshot.js";
import type { PodDialer } from "../ports/pod-dialer.js";

/** Connects by the second dialer when the first one throws `unsupported`. */
export class FallbackDialer implements PodDialer {
  constructor(
    private readonly first: PodDialer,
    private readonly second: PodDialer,
  ) {}

  async connect(sandbox: Snapshot, port: number, signal: AbortSignal): Promise<Duplex> {
    try {
      return await this.first.connect(sandbox, port, signal);
    } catch (error) {
      if (!isKind(error, "unsupported")) throw error;
      return await this.#takeSecond(error, sandbox, port, signal);
    }
  }

  async #takeSecond(
    reason: ShimError,
    sandbox: Snapshot,
    port: number,
    signal: AbortSignal,
  ): Promise<Duplex> {
    try {
      return await this.second.connect(sandbox, port, signal);
    } catch (error) {
      if (!isKind(error, "unsupported")) throw error;
      // Both reasons: an administrator may remove either of them.
      const message = `${messageOf(reason)}; ${error.message}`;
      throw new ShimError("unsupported", message, error.fields, {
        cause: new AggregateError([reason, error]),
      });
    }
  }
}
