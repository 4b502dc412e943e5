/** Flushes written files in the background, so that no call waits for the disk longer than it must. */
import { constants } from "node:fs";
import { dirname } from "node:path";
import { orAbort } from "../abort.js";
import { messageOf, type ShimError } from "../errors.js";
import type { Logger } from "../log.js";
import { syncDescriptor, syncDirectory, syncPath } from "./directories.js";
import { fileError, hasCode, unlessMissing } from "./file-errors.js";

/** Before this time is over, a file is often replaced again, or removed: then its flush is spared. */
const replacementDelayMs = 1_000;

/** The last content of one path. */
class Written {
  state: "waiting" | "flushing" | "failed" = "waiting";
  /** Never rejects. Undefined: on the disk. */
  readonly result: Promise<ShimError | undefined>;
  settle!: (failure: ShimError | undefined) => void;
  /** Of the open file, which the flush closes. */
  descriptor: number | undefined;

  constructor(public isNew: boolean) {
    this.result = new Promise((resolve) => {
      this.settle = resolve;
    });
  }
}

class Directory {
  readonly files = new Map<string, Written>();
  timer: NodeJS.Timeout | undefined;
  running: Promise<void> | undefined;
  /** What was logged; undefined after a flush without a failure. */
  failing: string | undefined;

  constructor(readonly path: string) {}

  get waiting(): readonly (readonly [path: string, written: Written])[] {
    return [...this.files].filter(([, { state }]) => state === "waiting");
  }
}

/**
 * Takes paths whose content is written and renamed already, which a kill of this process does not take back,
 * and makes them outlive a power cut. What comes for a directory while it is flushed is flushed together
 * afterwards, with one flush of the directory for all new names. Directories do not wait for each other.
 * A descriptor is taken only where its flush begins at once; other paths are opened again: a slow disk collects
 * no descriptors.
 */
export class Flusher {
  readonly #directories = new Map<string, Directory>();

  constructor(
    private readonly log: Pick<Logger, "error">,
    private readonly delayMs = replacementDelayMs,
  ) {}

  /**
   * `path` has new content. With a new name the flush begins now. A replaced file is flushed within a second,
   * because some file systems (XFS) write the rename before the content, and would leave an empty file during
   * half a minute. Its name is not flushed: they write it with the content, and where one does not, the old
   * file is there or the new one, or what was replaced twice is lost. True: the flush closes `descriptor`, that of
   * the file.
   */
  written(path: string, isNew: boolean, descriptor?: number): boolean {
    const directory = this.#directoryOf(path);
    const before = directory.files.get(path);
    if (before?.state === "waiting") before.isNew ||= isNew;
    else {
      const isUnknown = before?.state === "failed" && before.isNew;
      directory.files.set(path, new Written(isNew || isUnknown));
    }
    if (!isNew) {
      directory.timer ??= setTimeout(() => void this.#flush(directory), this.delayMs).unref();
      return false;
    }
    const written = directory.files.get(path);
    const isTaken = descriptor !== undefined && written !== undefined && directory.running === undefined;
    if (isTaken) written.descriptor = descriptor;
    void this.#flush(directory);
    return isTaken;
  }

  /** What `path` had needs no flush. After a power cut the file may be back. */
  removed(path: string): void {
    const directory = this.#directories.get(dirname(path));
    const written = directory?.files.get(path);
    if (directory === undefined || written === undefined) return;
    directory.files.delete(path);
    if (written.state === "waiting") written.settle(undefined);
    this.#forgetIdle(directory);
  }

  /**
   * Waits until the last content of `path` is on the disk, with the name when that is new. Throws as
   * `fileError` describes when it could not be flushed: then only another write can help.
   */
  async flushed(path: string, signal: AbortSignal): Promise<void> {
    const directory = this.#directories.get(dirname(path));
    const written = directory?.files.get(path);
    if (directory === undefined || written === undefined) return;
    void this.#flush(directory);
    const failure = await orAbort(written.result, signal);
    if (failure !== undefined) throw failure;
  }

  /** Flushes all that is left. Never throws. */
  async close(): Promise<void> {
    await Promise.all([...this.#directories.values()].map((directory) => this.#flush(directory)));
  }

  #directoryOf(file: string): Directory {
    const path = dirname(file);
    let directory = this.#directories.get(path);
    if (directory === undefined) this.#directories.set(path, (directory = new Directory(path)));
    return directory;
  }

  #forgetIdle(directory: Directory): void {
    if (directory.files.size > 0 || directory.running !== undefined) return;
    clearTimeout(directory.timer);
    directory.timer = undefined;
    if (directory.failing === undefined) this.#directories.delete(directory.path);
  }

  /** One flush of a directory at a time, which goes on until nothing waits. */
  async #flush(directory: Directory): Promise<void> {
    clearTimeout(directory.timer);
    directory.timer = undefined;
    if (directory.running === undefined && directory.waiting.length > 0) {
      directory.running = this.#run(directory);
    }
    await directory.running;
  }

  async #run(directory: Directory): Promise<void> {
    for (let batch = directory.waiting; batch.length > 0; batch = directory.waiting) {
      for (const [, written] of batch) written.state = "flushing";
      const failures = await flushAll(directory.path, batch);
      this.#report(directory, failures);
      for (const [path, written] of batch) {
        const failure = failures.get(written);
        const last = directory.files.get(path);
        if (failure === undefined) {
          if (last === written) directory.files.delete(path);
        } else {
          // It stays, for those who ask later. Its name is flushed with the next content.
          written.state = "failed";
          if (last !== undefined) last.isNew ||= written.isNew;
        }
        written.settle(failure);
      }
    }
    // Before anything else can run: what comes from now on must begin a flush.
    directory.running = undefined;
    this.#forgetIdle(directory);
  }

  /** Once for each kind of failure, until the directory can be flushed again. */
  #report(directory: Directory, failures: ReadonlyMap<Written, ShimError>): void {
    const [failure] = failures.values();
    const kind = failure === undefined ? undefined : String(failure.fields["errno"] ?? failure.message);
    if (failure !== undefined && kind !== directory.failing) {
      const { path } = failure.fields;
      this.log.error({ path, err: messageOf(failure) }, "cannot flush a file: a power cut may take it away");
    }
    directory.failing = kind;
  }
}

/** One after the other: a disk that hangs takes one thread per directory. */
async function flushAll(
  directory: string,
  batch: readonly (readonly [path: string, written: Written])[],
): Promise<ReadonlyMap<Written, ShimError>> {
  const failures = new Map<Written, ShimError>();
  for (const [path, written] of batch) {
    const { descriptor } = written;
    written.descriptor = undefined;
    const flushed = descriptor === undefined ? syncFile(path) : syncDescriptor(descriptor);
    await flushed.catch((error: unknown) => failures.set(written, fileError("flush", path, error)));
  }
  const names = batch.map(([, written]) => written).filter(({ isNew }) => isNew);
  if (names.length === 0) return failures;
  await syncDirectory(directory).catch((error: unknown) => {
    // Without the directory there is nothing to be kept.
    if (hasCode(error, "ENOENT")) return;
    for (const written of names) {
      if (!failures.has(written)) failures.set(written, fileError("flush", directory, error));
    }
  });
  return failures;
}

/** Throws raw system errors. A file that is gone needs no flush. */
async function syncFile(path: string): Promise<void> {
  await syncPath(path, constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(unlessMissing);
}
