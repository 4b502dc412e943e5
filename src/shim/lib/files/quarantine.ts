/** Where files go that cannot be understood: out of the way, but never lost. */
import { randomBytes } from "node:crypto";
import { rename } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { createDirectory, syncDirectory } from "./directories.js";
import { fileError } from "./file-errors.js";

/**
 * Moves `path` into `directory` (made 0700 when missing, on the same file system) under the name
 * `<origin>-<old name>-<16 hex digits>`, which overwrites nothing, and returns the new path. Throws as `fileError`
 * describes; the file is then still where it was.
 */
export async function quarantineFile(path: string, directory: string, origin: string): Promise<string> {
  await createDirectory(directory, 0o700);
  // A file name holds 255 bytes; sandbox ids have 64.
  const name = `${origin}-${basename(path).slice(0, 128)}-${randomBytes(8).toString("hex")}`;
  const target = join(directory, name);
  try {
    await rename(path, target);
    await syncDirectory(directory);
    await syncDirectory(dirname(path));
  } catch (error) {
    throw fileError("quarantine", path, error);
  }
  return target;
}
