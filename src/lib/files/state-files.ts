/** Files of state directories: safe reads, valid names with one lock each, a quarantine for corrupt ones. */
import { closeSync, constants, fstatSync, openSync, readFileSync, type Stats } from "node:fs";
import { link, open, rename } from "node:fs/promises";
import { fileError, hasCode } from "./file-errors.js";
import { orAbort, withDeadline } from "../abort.js";
import { KeyedMutex } from "../sync/keyed-mutex.js";
import { randomBytes } from "node:crypto";
import { basename, dirname, join } from "node:path";
import { createDirectory, syncDirectory } from "./directories.js";

export type ReadResult =
  | { readonly kind: "absent" }
  /** Something is there, but not a regular file of a sensible size. */
  | { readonly kind: "unfit"; readonly reason: string }
  | { readonly kind: "read"; readonly bytes: Uint8Array };

const readFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/**
 * Content of a regular file of at most `limitBytes`. Never follows a link in the last component and never
 * waits for the other end of a FIFO. Throws as `fileError` describes when it cannot be read.
 */
export async function readRegularFile(path: string, limitBytes: number): Promise<ReadResult> {
  try {
    await using file = await open(path, readFlags);
    return misfit(await file.stat(), limitBytes) ?? { kind: "read", bytes: await file.readFile() };
  } catch (error) {
    return notRead(path, error);
  }
}

/** As `readRegularFile`, for small files of this program's own directories: the thread pool takes ten times the CPU. */
export function readRegularFileSync(path: string, limitBytes: number): ReadResult {
  try {
    const file = openSync(path, readFlags);
    try {
      return misfit(fstatSync(file), limitBytes) ?? { kind: "read", bytes: readFileSync(file) };
    } finally {
      closeSync(file);
    }
  } catch (error) {
    return notRead(path, error);
  }
}

function misfit(status: Stats, limitBytes: number): ReadResult | undefined {
  if (!status.isFile()) return { kind: "unfit", reason: "not a regular file" };
  if (status.size > limitBytes) return { kind: "unfit", reason: `larger than ${limitBytes} bytes` };
  return undefined;
}

function notRead(path: string, error: unknown): ReadResult {
  if (hasCode(error, "ENOENT", "ENOTDIR")) return { kind: "absent" };
  if (hasCode(error, "ELOOP")) return { kind: "unfit", reason: "a symbolic link" };
  if (hasCode(error, "ENXIO")) return { kind: "unfit", reason: "not a regular file" };
  throw fileError("read", path, error);
}

const keyForm = /^(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;

/** By the rule of the kubelet's file store: letters, digits, between them `-_.`, at most 250 characters. */
export function isFileKey(key: string): boolean {
  return key.length <= 250 && keyForm.test(key);
}

/** Work on files, one at a time per key, in order of arrival. */
export class FileLocks {
  readonly #lock = new KeyedMutex();

  constructor(private readonly timeoutMs = 30_000) {}

  /**
   * Runs `work` alone under the lock of `key`. After the time limit the caller gets a `timeout` error, but a
   * write to a disk that hangs goes on: the lock stays held until it returns, and later callers time out.
   */
  run<T>(key: string, action: string, work: () => Promise<T>): Promise<T> {
    return withDeadline(undefined, this.timeoutMs, action, (signal) =>
      orAbort(this.#lock.run(key, signal, work), signal),
    );
  }
}

/**
 * Moves `path` into `directory` (made 0700 when missing, on the same file system) under the name
 * `<origin>-<old name>-<16 hex digits>`, which overwrites nothing, and returns the new path. Throws as
 * `fileError` describes; the file is then still where it was.
 */
export async function quarantineFile(path: string, directory: string, origin: string): Promise<string> {
  return putIntoQuarantine(path, directory, origin, rename);
}

/** As `quarantineFile`, but a file keeps its old name, too, until the caller replaces it. */
export async function linkIntoQuarantine(path: string, directory: string, origin: string): Promise<string> {
  return putIntoQuarantine(path, directory, origin, link);
}

async function putIntoQuarantine(
  path: string,
  directory: string,
  origin: string,
  put: (path: string, target: string) => Promise<void>,
): Promise<string> {
  await createDirectory(directory, 0o700);
  // A file name holds 255 bytes; sandbox ids have 64.
  const name = `${origin}-${basename(path).slice(0, 128)}-${randomBytes(8).toString("hex")}`;
  const target = join(directory, name);
  try {
    await put(path, target);
    await syncDirectory(directory);
    await syncDirectory(dirname(path));
  } catch (error) {
    throw fileError("quarantine", path, error);
  }
  return target;
}
