/**
 * Appends records to files that are removed when they are too many or too old. No caller waits for the disk: records
 * are written a moment later, together. What a kill takes is the last moment; a torn line is skipped by the reader.
 */
import { constants, write } from "node:fs";
import { type FileHandle, mkdir, open, readdir, stat, unlink } from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "../lib/errors.js";
import { unlessMissing } from "../lib/files/file-errors.js";
import type { Logger } from "../lib/log.js";
import { fileName, latestFile, sortNames } from "./history-files.js";
import { encodeRecord, type HistoryRecord } from "./history-record.js";

export interface HistoryLimits {
  /** Of all files together. */
  readonly bytes: number;
  /** The last write to a file is never longer ago when another one is begun. */
  readonly ageMs: number;
}

export interface HistoryWriterOptions extends HistoryLimits {
  readonly directory: string;
  readonly log: Pick<Logger, "info" | "warn">;
  /** How long records are collected. */
  readonly delayMs?: number;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

/** As many as have room when each is full. The oldest goes for a new one. */
const filesAtOnce = 8;
const defaultDelayMs = 1_000;
/** Until the file is closed. */
const idleMs = 5_000;
/** Records that wait for a disk that hangs. */
const mostWaitingBytes = 1024 * 1024;

interface WrittenFile {
  readonly path: string;
  /** Undefined while nothing is written: a file that is open for writing keeps a file system from being read-only. */
  handle: FileHandle | undefined;
  readonly begunAtMs: number;
  bytes: number;
}

const appending = constants.O_WRONLY | constants.O_APPEND | constants.O_NOFOLLOW;

interface Opened {
  readonly file: WrittenFile;
  readonly handle: FileHandle;
}

export class HistoryWriter {
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  /** Since the last write that succeeded. */
  #lost = 0;
  #timer: NodeJS.Timeout | undefined;
  #idleTimer: NodeJS.Timeout | undefined;
  #written = Promise.resolve();
  #file: WrittenFile | undefined;
  #failed = false;
  #closed = false;

  constructor(private readonly options: HistoryWriterOptions) {}

  add(record: HistoryRecord): void {
    if (this.#closed) return;
    const line = encodeRecord(record);
    if (this.#waitingBytes + line.length > Math.min(mostWaitingBytes, this.#fileBytes)) {
      this.#lost += 1;
      return;
    }
    this.#waiting.push(line);
    this.#waitingBytes += line.length;
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.flush();
    }, this.options.delayMs ?? defaultDelayMs).unref();
  }

  /** Resolves when all records so far are written, or could not be. */
  async flush(): Promise<void> {
    this.#written = this.#written.then(() => (this.#waiting.length === 0 ? undefined : this.#write()));
    await this.#written;
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#closed = true;
    await this.flush();
    clearTimeout(this.#idleTimer);
    await this.#closeFile();
  }

  /** Another record opens it again. Never rejects. */
  async #closeFile(): Promise<void> {
    const { handle } = this.#file ?? {};
    if (this.#file !== undefined) this.#file.handle = undefined;
    await handle?.close().catch(() => undefined);
  }

  #closeWhenIdle(): void {
    clearTimeout(this.#idleTimer);
    this.#idleTimer = setTimeout(() => {
      this.#written = this.#written.then(() => this.#closeFile());
    }, idleMs).unref();
  }

  get #fileBytes(): number {
    return this.options.bytes / filesAtOnce;
  }

  /** Never rejects. */
  async #write(): Promise<void> {
    const lines = this.#waiting;
    this.#waiting = [];
    this.#waitingBytes = 0;
    const lost = this.#lost;
    const { now = Date.now, log } = this.options;
    const first = lost === 0 ? [] : [encodeRecord({ kind: "lost", at: now(), count: lost })];
    const bytes = Buffer.concat([...first, ...lines]);
    try {
      const { file, handle } = await this.#fileFor(bytes.length, now());
      await append(handle, bytes);
      file.bytes += bytes.length;
      this.#closeWhenIdle();
      this.#lost -= lost;
      if (this.#failed) log.info({ lost }, "the history is written again");
      this.#failed = false;
    } catch (error) {
      this.#lost += lines.length;
      const fields = { path: this.options.directory, err: messageOf(error) };
      if (!this.#failed) log.warn(fields, "cannot write the history");
      this.#failed = true;
      // Part of the bytes may have been written: a file that is opened again goes on with a line of its own.
      await this.#closeFile();
      this.#file = undefined;
    }
  }

  async #fileFor(bytes: number, nowMs: number): Promise<Opened> {
    const { ageMs, directory } = this.options;
    const takes = (file: Pick<WrittenFile, "bytes" | "begunAtMs">): boolean =>
      file.bytes + bytes <= this.#fileBytes && nowMs - file.begunAtMs < ageMs / filesAtOnce;
    const known = this.#file;
    if (known !== undefined && takes(known)) {
      known.handle ??= await open(known.path, appending, 0o600);
      return { file: known, handle: known.handle };
    }
    await this.#closeFile();
    await mkdir(directory, { mode: 0o700, recursive: true });
    const { numbers, later } = sortNames(await readdir(directory));
    const last = numbers.at(-1) ?? 0;
    if (known === undefined && last > 0) {
      // That of the process before, or one that could not be written.
      const path = join(directory, fileName(last));
      const { size, begunAtMs } = await statusOf(path);
      if (takes({ bytes: size, begunAtMs })) return this.#open(path, { bytes: size, begunAtMs });
    }
    await this.#makeRoom(numbers, later, nowMs);
    return this.#open(join(directory, fileName(last + 1)), { bytes: 0, begunAtMs: nowMs });
  }

  async #open(path: string, begun: Pick<WrittenFile, "bytes" | "begunAtMs">): Promise<Opened> {
    const handle = await open(path, appending | constants.O_CREAT, 0o600);
    const file = { path, handle, ...begun };
    this.#file = file;
    // Its last line may be torn. The reader skips empty lines.
    if (begun.bytes > 0) await handle.writeFile("\n");
    return { file, handle };
  }

  /** Removes the oldest files until a full one fits. Files of later releases stay, and count. */
  async #makeRoom(numbers: readonly number[], later: readonly string[], nowMs: number): Promise<void> {
    const { directory, bytes: limitBytes, ageMs } = this.options;
    const files: { readonly path: string; readonly size: number; readonly mtimeMs: number }[] = [];
    let present = 0;
    for (const name of [...later, ...numbers.map(fileName)]) {
      const path = join(directory, name);
      const { size, mtimeMs } = await statusOf(path);
      present += size;
      if (!later.includes(name)) files.push({ path, size, mtimeMs });
    }
    for (const { path, size, mtimeMs } of files) {
      if (present + this.#fileBytes <= limitBytes && nowMs - mtimeMs < ageMs) continue;
      await unlink(path).catch(unlessMissing);
      present -= size;
    }
  }
}

/** As `writeFile` of the handle, for less CPU time. */
async function append({ fd }: FileHandle, bytes: Buffer): Promise<void> {
  for (let rest = bytes; rest.length > 0;) {
    const written = await new Promise<number>((resolve, reject) => {
      write(fd, rest, (error, count) => {
        if (error === null) resolve(count);
        else reject(error);
      });
    });
    rest = rest.subarray(written);
  }
}

interface FileStatus {
  readonly size: number;
  readonly mtimeMs: number;
  readonly begunAtMs: number;
}

async function statusOf(path: string): Promise<FileStatus> {
  const status = await stat(path).catch(unlessMissing);
  const { size = 0, mtimeMs = 0, birthtimeMs = 0 } = status ?? {};
  return { size, mtimeMs, begunAtMs: birthtimeMs };
}

/** When a server last wrote; 0 without a history. */
export async function lastWriteMs(directory: string): Promise<number> {
  const path = latestFile(directory);
  const status = path === undefined ? undefined : await stat(path).catch(() => undefined);
  return status?.mtimeMs ?? 0;
}
