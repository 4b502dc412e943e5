/** Directories, made and flushed. */
import { closeSync, constants, fsync, openSync, readdirSync, statSync } from "node:fs";
import { mkdir, readdir, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { fileError, hasCode } from "./file-errors.js";

/**
 * Makes the directory and its missing parents, durably, with the permission bits `mode` (less the umask). One
 * that exists is left alone. Throws as `fileError` describes.
 */
export async function createDirectory(path: string, mode: number): Promise<void> {
  // Not mkdir's `recursive`: that reports a read-only file system as ENOENT, and flushes nothing.
  try {
    await makeDirectory(path, mode).catch(async (error: unknown) => {
      if (!hasCode(error, "ENOENT") || dirname(path) === path) throw error;
      await createDirectory(dirname(path), mode);
      // Only once more: in /proc this is ENOENT for ever.
      await makeDirectory(path, mode);
    });
  } catch (error) {
    if (!hasCode(error, "EEXIST") || !(await isDirectory(path)))
      throw fileError("create directory", path, error);
  }
}

/**
 * As `createDirectory`, for this program's own directories, which are there but at the first start: a synchronous look
 * takes no turn of the thread pool.
 */
export async function createOwnDirectory(path: string, mode: number): Promise<void> {
  let isThere = false;
  try {
    isThere = statSync(path).isDirectory();
  } catch {
    // What is wrong is said below.
  }
  if (!isThere) await createDirectory(path, mode);
}

async function makeDirectory(path: string, mode: number): Promise<void> {
  await mkdir(path, { mode });
  await syncDirectory(dirname(path));
}

async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch (error) {
    throw fileError("look at", path, error);
  }
}

/** Flushes names in a directory, so that a change of them survives a power cut. Throws system errors. */
export async function syncDirectory(path: string): Promise<void> {
  try {
    await syncPath(path, constants.O_DIRECTORY);
  } catch (error) {
    // File systems that cannot flush a directory say so with these; there is nothing more to be done on them.
    if (!hasCode(error, "EINVAL", "ENOTSUP")) throw error;
  }
}

/** Only the flush itself waits for the disk, and takes a thread. Throws system errors. */
export async function syncPath(path: string, flags: number): Promise<void> {
  await syncDescriptor(openSync(path, constants.O_RDONLY | flags));
}

/** Flushes and closes an open file. Throws system errors. */
export async function syncDescriptor(file: number): Promise<void> {
  try {
    await new Promise<void>((resolve, reject) => {
      fsync(file, (error) => {
        if (error === null) resolve();
        else reject(error);
      });
    });
  } finally {
    closeSync(file);
  }
}

/** Younger times prove nothing: two changes within a tick of the file system's clock (2 s) have one time. */
const settledMs = 3_000;
const none: readonly string[] = [];

/** The names in a directory that others change, too: read again when its times say so, or are too young. */
export class KnownNames {
  /** Undefined: to be read. `state` is what the directory looked like before it was read. */
  #known: { readonly state: string; readonly names: readonly string[] } | undefined;

  constructor(
    private readonly directory: string,
    private readonly now: () => number = Date.now,
  ) {}

  /** As `namesIn`; the same array as long as nothing has changed. */
  async read(): Promise<readonly string[]> {
    const state = await this.#look();
    if (state === "missing") return none;
    if (this.#known !== undefined && this.#known.state === state) return this.#known.names;
    const names = await namesIn(this.directory);
    this.#known = state === undefined ? undefined : { state, names };
    return names;
  }

  /** Which directory it is, and its last change; undefined when that cannot tell a later change. */
  async #look(): Promise<string | undefined> {
    try {
      const { dev, ino, mtimeNs, ctimeNs } = await stat(this.directory, { bigint: true });
      const latest = mtimeNs > ctimeNs ? mtimeNs : ctimeNs;
      const ageMs = this.now() - Number(latest / 1_000_000n);
      // One of the future was written before the clock was set back.
      if (ageMs < settledMs) return undefined;
      return [dev, ino, mtimeNs, ctimeNs].join(":");
    } catch (error) {
      if (hasCode(error, "ENOENT", "ENOTDIR")) return "missing";
      throw fileError("look at", this.directory, error);
    }
  }
}

/** Names of the entries of a directory; none when it is missing. Throws as `fileError` describes. */
export async function namesIn(directory: string): Promise<readonly string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    return noneIfMissing(directory, error);
  }
}

/** As `namesIn`, for this program's own directories: without a turn of the thread pool. */
export function namesInSync(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    return noneIfMissing(directory, error);
  }
}

function noneIfMissing(directory: string, error: unknown): readonly string[] {
  if (hasCode(error, "ENOENT", "ENOTDIR")) return none;
  throw fileError("list", directory, error);
}
