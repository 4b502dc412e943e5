import { type ErrorKind, ShimError } from "../../../src/lib/errors.js";

/** For assert.throws: a ShimError of this kind whose message matches. */
export function refusal(kind: ErrorKind, message: RegExp): (error: unknown) => boolean {
  return (error) => {
    if (!(error instanceof ShimError)) throw error;
    if (error.kind === kind && message.test(error.message)) return true;
    throw new Error(`expected ${kind} ${message}, got ${error.kind} ${JSON.stringify(error.message)}`);
  };
}
