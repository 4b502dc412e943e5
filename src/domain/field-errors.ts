/** Refusals of a request: each names the field by its path in the message, as `config.mounts[2].host_path`. */
import { ShimError, type ErrorKind } from "../lib/errors.js";

const shownCharacters = 80;

/** A value from a request, quoted and cut, fit for an error message. Never for environment values. */
export function quote(value: string): string {
  return JSON.stringify(value.length > shownCharacters ? `${value.slice(0, shownCharacters)}…` : value);
}

/** The field is malformed or contradicts another. `value` is shown; leave it out when it may be secret. */
export function invalidField(field: string, reason: string, value?: string): ShimError {
  return new ShimError("invalid", describe(field, reason, value), { field });
}

/** Docker cannot express the field, or not on this engine: a pod must not run with less than it asked for. */
export function unsupportedField(field: string, reason: string, value?: string): ShimError {
  return new ShimError("unsupported", describe(field, reason, value), { field });
}

/** The request is sound, but the node is not as it must be (a missing path, a profile that is not loaded). */
export function preconditionField(field: string, reason: string, value?: string): ShimError {
  return new ShimError("precondition", describe(field, reason, value), { field });
}

/** A path on the node cannot be used. */
export function problemField(
  field: string,
  { kind, reason }: { readonly kind: ErrorKind; readonly reason: string },
  path: string,
): ShimError {
  return new ShimError(kind, describe(field, reason, path), { field });
}

function describe(field: string, reason: string, value: string | undefined): string {
  return value === undefined ? `${field}: ${reason}` : `${field} ${quote(value)}: ${reason}`;
}

/**
 * The kernel starts no program by a longer path (PATH_MAX, with the byte that ends it). The OCI runtime does
 * not get its error about one of 33 KB or more through to the engine: the start hangs, and with it every
 * request for the container.
 */
export const longestProgramBytes = 4095;

/** `field` has the program. It is not shown: it is too long for a message. */
export function programTooLong(field: string): ShimError {
  return invalidField(
    field,
    `names a program of more than ${longestProgramBytes} bytes, which the kernel does not start`,
  );
}
