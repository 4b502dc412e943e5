import assert from "node:assert/strict";
import { type ErrorKind, ShimError } from "../../src/lib/errors.js";

/** For assert.throws and assert.rejects: a ShimError of this kind whose message matches, or is this text. */
export function refusal(kind: ErrorKind, message: RegExp | string = /./): (error: unknown) => boolean {
  return (error) => {
    if (!(error instanceof ShimError)) throw error;
    const isSaid = typeof message === "string" ? error.message === message : message.test(error.message);
    if (error.kind === kind && isSaid) return true;
    throw new Error(`expected ${kind} ${message}, got ${error.kind} ${JSON.stringify(error.message)}`);
  };
}

/** Fails unless `promise` is rejected with such an error. */
export async function rejectsWith(
  promise: Promise<unknown>,
  kind: ErrorKind,
  message?: RegExp | string,
): Promise<void> {
  await assert.rejects(promise, refusal(kind, message));
}
