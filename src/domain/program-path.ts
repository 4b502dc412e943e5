/**
 * The kernel starts no program by a longer path (PATH_MAX, with the byte that ends it). The OCI runtime does
 * not get its error about one of 33 KB or more through to the engine: the start hangs, and with it every
 * request for the container.
 */
import { invalidField } from "./field-errors.js";
import type { ShimError } from "../lib/errors.js";

export const longestProgramBytes = 4095;

/** `field` has the program. It is not shown: it is too long for a message. */
export function programTooLong(field: string): ShimError {
  return invalidField(
    field,
    `names a program of more than ${longestProgramBytes} bytes, which the kernel does not start`,
  );
}
