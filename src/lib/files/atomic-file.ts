/** Files that are whole or absent after a kill and, where they are flushed, after a power cut. */
import { randomUUID } from "node:crypto";
import { closeSync, fchmodSync, lstatSync, openSync, renameSync, unlinkSync, writeFileSync } from "node:fs";
import { open, rename, rm, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createDirectory, namesInSync, syncDirectory } from "./directories.js";
import { ShimError } from "../errors.js";
import { fileError, hasCode } from "./file-errors.js";
import type { Flusher } from "./flusher.js";

export interface AtomicWriteOptions {
  /** Permission bits of the file, whatever the umask. */
  readonly mode: number;
  /** Begins with a dot where others list the directory; 16 hex digits follow. */
  readonly temporaryPrefix: string;
  /**
   * When the content reaches the disk. `first`, when not given: before the write returns; a power cut leaves
   * the old content or the new. `never`: when the kernel writes it; a power cut may also leave an empty or
   * short file, or none.
   */
  readonly flush?: "first" | "never";
  /** Permission bits with which a missing directory is made; without them a missing one is an error. */
  readonly directoryMode?: number;
}

/**
 * Writes a temporary file beside `path` and renames it over `path`. When it throws (see `fileError`), `path`
 * holds the old content or the new, never a mixture, and the temporary file is gone. A kill of this process
 * leaves a temporary file at worst, for `sweepTemporaryFiles` to find.
 */
export async function writeFileAtomically(
  path: string,
  content: string | Uint8Array,
  options: AtomicWriteOptions,
): Promise<void> {
  const { flush = "first", directoryMode } = options;
  try {
    try {
      await writeAndRename(path, content, options);
    } catch (error) {
      if (directoryMode === undefined || !hasCode(error, "ENOENT", "ENOTDIR")) throw error;
      // The directory is missing, or another program has removed the temporary file.
      await createDirectory(dirname(path), directoryMode);
      await writeAndRename(path, content, options);
    }
    if (flush === "first") await syncDirectory(dirname(path));
  } catch (error) {
    throw fileError("write", path, error);
  }
}

/** Throws raw system errors. */
async function writeAndRename(
  path: string,
  content: string | Uint8Array,
  options: AtomicWriteOptions,
): Promise<void> {
  const staged = await stage(path, content, options);
  try {
    await staged.commit();
  } catch (error) {
    await staged.discard();
    throw error;
  }
}

/** A file whose new content is written under a temporary name. */
export interface StagedFile {
  readonly path: string;
  /** Gives it its name, in place of what is there. Throws raw system errors. */
  commit(): Promise<void>;
  /** Removes the temporary file. Never fails: what cannot be removed is left to `sweepTemporaryFiles`. */
  discard(): Promise<void>;
}

/** Writes and flushes the temporary file alone. Throws as `fileError` describes; the file is gone then. */
export async function stageFile(
  path: string,
  content: string | Uint8Array,
  options: Pick<AtomicWriteOptions, "mode" | "temporaryPrefix">,
): Promise<StagedFile> {
  try {
    return await stage(path, content, options);
  } catch (error) {
    throw fileError("write", path, error);
  }
}

/** Throws raw system errors. */
async function stage(
  path: string,
  content: string | Uint8Array,
  { mode, temporaryPrefix, flush = "first" }: AtomicWriteOptions,
): Promise<StagedFile> {
  const temporary = temporaryPath(path, temporaryPrefix);
  // What made the write fail often makes this fail too. The first error counts; the sweep is left.
  const discard = (): Promise<void> => rm(temporary, { force: true }).catch(() => undefined);
  // "wx" creates or fails: an existing link of this name is not followed.
  const file = await open(temporary, "wx", mode);
  try {
    try {
      // A umask removes no permission of the owner alone.
      if ((mode & 0o077) !== 0) await file.chmod(mode);
      await file.writeFile(content);
      if (flush === "first") await file.sync();
    } finally {
      await file.close();
    }
  } catch (error) {
    await discard();
    throw error;
  }
  return { path, commit: () => rename(temporary, path), discard };
}

export interface ReplaceOptions extends Pick<AtomicWriteOptions, "mode" | "temporaryPrefix"> {
  readonly flush?: { readonly flusher: Pick<Flusher, "written">; readonly isNew: boolean } | undefined;
}

/**
 * As `writeFileAtomically`, for small files of this program's own directories: by synchronous calls, because the
 * thread pool takes ten times the CPU of such a write. `flush`: in the background; without it nothing is flushed.
 */
export function replaceFileSync(
  path: string,
  content: string | Uint8Array,
  { mode, temporaryPrefix, flush }: ReplaceOptions,
): void {
  const temporary = temporaryPath(path, temporaryPrefix);
  try {
    const file = openSync(temporary, "wx", mode);
    let isTaken = false;
    try {
      if ((mode & 0o077) !== 0) fchmodSync(file, mode);
      writeFileSync(file, content);
      renameSync(temporary, path);
      isTaken = flush?.flusher.written(path, flush.isNew, file) ?? false;
    } catch (error) {
      discardSync(temporary);
      throw error;
    } finally {
      if (!isTaken) closeSync(file);
    }
  } catch (error) {
    throw fileError("write", path, error);
  }
}

/**
 * Runs `work`, which writes into `directory`, and once more when the directory was missing, which is made then:
 * another program may have removed it.
 */
export async function inDirectory<T>(directory: string, mode: number, work: () => T): Promise<T> {
  try {
    return work();
  } catch (error) {
    if (!isMissing(error)) throw error;
    await createDirectory(directory, mode);
    return work();
  }
}

/** Node.js has random bytes for many UUIDs at hand, and asks for others each time. */
function temporaryPath(path: string, prefix: string): string {
  return join(dirname(path), prefix + randomUUID().replaceAll("-", "").slice(-16));
}

/** What made the write fail often makes this fail too. The first error counts; the sweep is left. */
function discardSync(temporary: string): void {
  try {
    unlinkSync(temporary);
  } catch {
    // See above.
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof ShimError && ["ENOENT", "ENOTDIR"].includes(String(error.fields["errno"]));
}

/** Removes the file; a power cut may bring it back. False when there was none. Throws as `fileError`. */
export async function removeFile(path: string): Promise<boolean> {
  try {
    await unlink(path);
    return true;
  } catch (error) {
    return wasMissing(path, error);
  }
}

/** As `removeFile`, for files of this program's own directories. */
export function removeFileSync(path: string, flusher?: Flusher): boolean {
  let wasThere: boolean;
  try {
    unlinkSync(path);
    wasThere = true;
  } catch (error) {
    wasThere = wasMissing(path, error);
  }
  flusher?.removed(path);
  return wasThere;
}

function wasMissing(path: string, error: unknown): false {
  if (!hasCode(error, "ENOENT", "ENOTDIR")) throw fileError("remove", path, error);
  return false;
}

export interface SweepOptions {
  /** One of these must match the whole file name. */
  readonly patterns: readonly RegExp[];
  /** Younger files may belong to a write that is under way; not given where no other process writes. */
  readonly olderThanMs?: number;
}

/** Names that the prefix `.dockershim-` gives. */
export const ownTemporaryName = /^\.dockershim-[0-9a-f]{16}$/;

/**
 * Removes temporary files that crashed writers left in `directory`, regular files only, and returns their
 * names. A missing directory is empty. Throws as `fileError` describes. By synchronous calls, as `replaceFileSync`.
 */
export function sweepTemporaryFiles(directory: string, options: SweepOptions): readonly string[] {
  const removed: string[] = [];
  // Not "now" for all of them: the clock may have been set back since they were written.
  const newest = options.olderThanMs === undefined ? Infinity : Date.now() - options.olderThanMs;
  for (const name of namesInSync(directory)) {
    if (!options.patterns.some((pattern) => pattern.test(name))) continue;
    const path = join(directory, name);
    try {
      const status = lstatSync(path);
      if (!status.isFile() || status.mtimeMs > newest) continue;
      unlinkSync(path);
      removed.push(name);
    } catch (error) {
      if (!hasCode(error, "ENOENT")) throw fileError("remove", path, error);
    }
  }
  return removed;
}
