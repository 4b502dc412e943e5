/** Files that are whole or absent after a crash, and stay so after a power cut. */
import { randomBytes } from "node:crypto";
import { lstat, open, rename, rm, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { namesIn, syncDirectory } from "./directories.js";
import { fileError, hasCode } from "./file-errors.js";

export interface AtomicWriteOptions {
  /** Permission bits of the file, whatever the umask. */
  readonly mode: number;
  /**
   * Begin of the temporary file's name; 16 hex digits follow. Begins with a dot where others list the
   * directory.
   */
  readonly temporaryPrefix: string;
  /**
   * What the new content outlives: a power cut when not given. `crash`: the end of this process only, without
   * the two flushes, for what has no meaning after a power cut; the file may then be the old one, empty or
   * gone.
   */
  readonly survives?: "powerCut" | "crash";
}

/**
 * Writes a temporary file beside `path`, flushes it, renames it over `path` and flushes the directory. When
 * it throws (see `fileError`), `path` holds the old content or the new, never a mixture, and the temporary
 * file is gone. A crash leaves a temporary file at worst, for `sweepTemporaryFiles` to find.
 */
export async function writeFileAtomically(
  path: string,
  content: string | Uint8Array,
  options: AtomicWriteOptions,
): Promise<void> {
  const directory = dirname(path);
  const flushes = options.survives !== "crash";
  const temporary = join(directory, options.temporaryPrefix + randomBytes(8).toString("hex"));
  try {
    // "wx" creates or fails: an existing link of this name is not followed.
    const file = await open(temporary, "wx", options.mode);
    try {
      try {
        // A umask removes no permission of the owner alone.
        if ((options.mode & 0o077) !== 0) await file.chmod(options.mode);
        await file.writeFile(content);
        if (flushes) await file.sync();
      } finally {
        await file.close();
      }
      await rename(temporary, path);
    } catch (error) {
      // What made the write fail often makes this fail too. It is the first error that counts, and the sweep
      // is left.
      await rm(temporary, { force: true }).catch(() => undefined);
      throw error;
    }
    if (flushes) await syncDirectory(directory);
  } catch (error) {
    throw fileError("write", path, error);
  }
}

/** Removes the file for good (flushed). False when there was none. Throws as `fileError` describes. */
export async function removeFileDurably(path: string): Promise<boolean> {
  if (!(await removeFile(path))) return false;
  try {
    await syncDirectory(dirname(path));
    return true;
  } catch (error) {
    if (hasCode(error, "ENOENT")) return false;
    throw fileError("remove", path, error);
  }
}

/**
 * Removes the file; a power cut may bring it back. False when there was none. Throws as `fileError`
 * describes.
 */
export async function removeFile(path: string): Promise<boolean> {
  try {
    await unlink(path);
    return true;
  } catch (error) {
    if (hasCode(error, "ENOENT", "ENOTDIR")) return false;
    throw fileError("remove", path, error);
  }
}

export interface SweepOptions {
  /** One of these must match the whole file name. */
  readonly patterns: readonly RegExp[];
  /**
   * Younger files may belong to a write that is still under way. Not given where no other process writes:
   * then all are removed.
   */
  readonly olderThanMs?: number;
}

/** Of the names that the prefix `.dockershim-` gives. */
export const ownTemporaryName = /^\.dockershim-[0-9a-f]{16}$/;

/**
 * Removes temporary files that crashed writers left in `directory`, regular files only, and returns their
 * names. A missing directory is empty. Throws as `fileError` describes.
 */
export async function sweepTemporaryFiles(
  directory: string,
  options: SweepOptions,
): Promise<readonly string[]> {
  const removed: string[] = [];
  // Not "now" for all of them: the clock may have been set back since they were written.
  const newest = options.olderThanMs === undefined ? Infinity : Date.now() - options.olderThanMs;
  for (const name of await namesIn(directory)) {
    if (!options.patterns.some((pattern) => pattern.test(name))) continue;
    const path = join(directory, name);
    try {
      const status = await lstat(path);
      if (!status.isFile() || status.mtimeMs > newest) continue;
      await unlink(path);
      removed.push(name);
    } catch (error) {
      if (!hasCode(error, "ENOENT")) throw fileError("remove", path, error);
    }
  }
  return removed;
}
