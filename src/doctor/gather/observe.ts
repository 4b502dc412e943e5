/** Looks at one thing within a time: what fails or hangs becomes a value, and hides nothing else. */
import { orAbort, withDeadline } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";
import type { Observed } from "../facts.js";

export async function observe<T>(
  action: string,
  timeoutMs: number,
  look: (signal: AbortSignal) => Promise<T>,
): Promise<Observed<T>> {
  try {
    // What does not end with its signal, as a read of a mount that hangs, is left behind.
    const seen = await withDeadline(undefined, timeoutMs, action, (signal) => orAbort(look(signal), signal));
    return { seen };
  } catch (error) {
    const { kind, message } = ShimError.from(error);
    return { problem: message, timedOut: kind === "timeout" };
  }
}
