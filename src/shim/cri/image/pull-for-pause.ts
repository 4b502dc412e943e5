import type { Call } from "../../lib/call.js";
import { aggregate, ShimError } from "../../lib/errors.js";
import type { Engine, RegistryCredentials } from "../../ports/engine.js";
import { pullWithProgressDeadline } from "./pull-image.js";

export interface PauseImagePullDeps extends Pick<Call, "log"> {
  readonly engine: Pick<Engine, "pullImage">;
  /** The node's credentials for a reference, best match first. */
  readonly credentials: {
    lookUp(reference: string, signal: AbortSignal): Promise<readonly RegistryCredentials[]>;
  };
  readonly progressDeadlineMs: number;
}

/** Pulls with each of the node's matching credentials in turn; without any, anonymously. The first success counts. */
export async function pullForPause(
  reference: string,
  deps: PauseImagePullDeps,
  signal: AbortSignal,
): Promise<void> {
  const found = await deps.credentials.lookUp(reference, signal);
  const errors: ShimError[] = [];
  for (const credentials of found.length === 0 ? [undefined] : found) {
    try {
      await pullWithProgressDeadline(
        deps.engine,
        reference,
        credentials,
        deps.progressDeadlineMs,
        signal,
        deps,
      );
      return;
    } catch (error) {
      if (signal.aborted) throw error;
      errors.push(ShimError.from(error));
    }
  }
  throw aggregate(errors) ?? new ShimError("internal", "a pull failed without an error");
}
