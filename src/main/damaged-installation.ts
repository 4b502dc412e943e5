/** A file of the program that is missing: one line, and not Node.js's stack, which names no remedy. */

/** `error`: of what reads or loads the program. */
export function refuseDamaged(error: unknown): void {
  const reason = error instanceof Error ? error.message : String(error);
  process.stderr.write(`dockershim: the installation is damaged, install it again: ${reason}\n`);
  process.exitCode = 1;
}

/** Throws all other errors. */
export function refuseMissingModule(error: unknown): void {
  const isMissing = error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND";
  if (!isMissing) throw error;
  refuseDamaged(error);
}
