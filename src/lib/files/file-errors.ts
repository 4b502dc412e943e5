/** Failures of the file system, turned into errors that name the path. */
import { getSystemErrorMap } from "node:util";
import { ShimError, messageOf } from "../errors.js";

/** Faults of the disk or of a limit, which pass: the same call may succeed later. */
const passing: ReadonlySet<string> = new Set([
  "EAGAIN",
  "EBUSY",
  "EDQUOT",
  "EIO",
  "EMFILE",
  "ENFILE",
  "ENOMEM",
  "ENOSPC",
  "EROFS",
  "ESTALE",
  "ETIMEDOUT",
]);

/**
 * `error` as a ShimError that says `action "path": reason`: `unavailable` for faults that pass (disk full,
 * read-only, I/O error, out of file descriptors), `internal` for the rest. A ShimError is returned as it is.
 */
export function fileError(action: string, path: string, error: unknown): ShimError {
  if (error instanceof ShimError) return error;
  const code = errorCode(error);
  // Node words them as `ENOSPC: no space left on device, write`; system call and path are said by the prefix.
  const reason = /^[A-Z0-9]+: ([^,]+)/.exec(messageOf(error))?.[1] ?? messageOf(error);
  const kind = code !== undefined && passing.has(code) ? "unavailable" : "internal";
  const message = `${action} ${JSON.stringify(path)}: ${reason}`;
  return new ShimError(kind, message, { path, errno: code }, { cause: error });
}

/** Whether `error` is a system error with one of `codes`, as `ENOENT`. */
export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  const code = errorCode(error);
  return code !== undefined && codes.includes(code);
}

/** For `catch` of a promise: undefined when the file is missing. */
export function unlessMissing(error: unknown): undefined {
  if (!hasCode(error, "ENOENT")) throw error;
}

function errorCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

/** Those that Node.js has no name for. */
const unnamedErrors: Readonly<Record<number, readonly [code: string, reason: string]>> = {
  122: ["EDQUOT", "disk quota exceeded"],
};

/** Of the number of an error of Linux, as Node.js makes it of a failed call: with `code`. */
export function systemError(errno: number, operation: string, path: string): Error {
  const [code, reason] = getSystemErrorMap().get(-errno) ??
    unnamedErrors[errno] ?? [`E${errno}`, `error ${errno}`];
  const message = `${code}: ${reason}, ${operation} '${path}'`;
  return Object.assign(new Error(message), { code, errno: -errno, syscall: operation, path });
}
