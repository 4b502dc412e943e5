/** Reading files that a stranger may have replaced by something else. */
import { constants, open } from "node:fs/promises";
import { fileError, hasCode } from "./file-errors.js";

export type ReadResult =
  | { readonly kind: "absent" }
  /** Something is there, but not a regular file of a sensible size. */
  | { readonly kind: "unfit"; readonly reason: string }
  | { readonly kind: "read"; readonly bytes: Uint8Array };

/**
 * Content of a regular file of at most `limitBytes`. Never follows a link in the last component and never waits for
 * the other end of a FIFO. Throws as `fileError` describes when the disk or the rights do not permit to read.
 */
export async function readRegularFile(path: string, limitBytes: number): Promise<ReadResult> {
  try {
    const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      const status = await file.stat();
      if (!status.isFile()) return { kind: "unfit", reason: "not a regular file" };
      if (status.size > limitBytes)
        return { kind: "unfit", reason: `larger than ${String(limitBytes)} bytes` };
      return { kind: "read", bytes: await file.readFile() };
    } finally {
      await file.close();
    }
  } catch (error) {
    if (hasCode(error, "ENOENT", "ENOTDIR")) return { kind: "absent" };
    if (hasCode(error, "ELOOP")) return { kind: "unfit", reason: "a symbolic link" };
    if (hasCode(error, "ENXIO")) return { kind: "unfit", reason: "not a regular file" };
    throw fileError("read", path, error);
  }
}
