import type { Duplex } from "node:stream";
import { isKind, messageOf, ShimError } from "../lib/errors.js";
import type { Snapshot } from "../domain/snapshot.js";
import type { PodDialer } from "../ports/pod-dialer.js";

/** Two ways into pods: the second where the first says that it is `unsupported`, for whatever pod that is. */
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
      // Both reasons: either of them may be the one to remove.
      const message = `${messageOf(reason)}; ${error.message}`;
      throw new ShimError("unsupported", message, error.fields, {
        cause: new AggregateError([reason, error]),
      });
    }
  }
}
