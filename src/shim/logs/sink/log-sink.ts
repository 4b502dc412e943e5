/** The log file that kubelets and log agents read. */
import { stat, type FileHandle } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { namesIn } from "../../../lib/files/directories.js";
import { fileError } from "../../../lib/files/file-errors.js";
import type { LogTarget } from "../../ports/container-logs.js";
import { openLogFile } from "./open-log-file.js";

const newline = 0x0a;
const tailBytes = 256 * 1024;

export interface Appended {
  /** In the file: whole lines. `error` says why these are not all. */
  readonly bytes: number;
  readonly error?: Error;
}

/** Lines of a killed process behind the recorded position. */
export interface Written {
  readonly lines: number;
  /** The last line of the file. */
  readonly last: Buffer | undefined;
}

/** One open log file. Except during a write it ends with a whole line. */
export class LogSink {
  private constructor(
    private readonly file: FileHandle,
    /** Identifies the file also after a rename. */
    readonly inode: string,
    private sizeBytes: number,
  ) {}

  /** As `openLogFile`. */
  static async open(target: LogTarget, options: { readonly create: boolean }): Promise<LogSink | undefined> {
    const opened = await openLogFile(target, options);
    if (opened === undefined) return undefined;
    const { ino, size } = opened.status;
    return new LogSink(opened.file, String(ino), Number(size));
  }

  /** At the log path or a rotated one: a rename may be undone until a reopening. Undefined without it. */
  static async find(target: LogTarget, inode: string): Promise<LogSink | undefined> {
    for (const path of [target.path, ...(await rotatedPaths(target.path))]) {
      const status = await stat(path, { bigint: true }).catch(() => undefined);
      if (status === undefined || String(status.ino) !== inode) continue;
      const sink = await LogSink.open({ ...target, path }, { create: false }).catch(() => undefined);
      if (sink?.inode === inode) return sink;
      await sink?.close();
    }
    return undefined;
  }

  get size(): number {
    return this.sizeBytes;
  }

  /** Appends whole lines. A line that is not whole, as on a full disk, is truncated away. Never throws. */
  async append(data: Buffer): Promise<Appended> {
    let written = 0;
    try {
      while (written < data.length) {
        const { bytesWritten } = await this.file.write(data, written, data.length - written, null);
        written += bytesWritten;
      }
      this.sizeBytes += written;
      return { bytes: written };
    } catch (error) {
      const whole = written === 0 ? 0 : data.lastIndexOf(newline, written - 1) + 1;
      const reason = fileError("write the log file", "", error);
      try {
        if (whole < written) {
          const { size } = await this.file.stat();
          await this.file.truncate(size - (written - whole));
        }
      } catch {
        // An incomplete line stays, and the next line begins behind it.
      }
      this.sizeBytes += whole;
      return { bytes: whole, error: reason };
    }
  }

  /**
   * Truncates an incomplete last line, and counts the lines behind the first `from` bytes; all when no line
   * ends there, for another program has truncated the file.
   */
  async settle(from: number): Promise<Written> {
    const { lines, last, end, size } = await this.look(from);
    if (end < size) await this.file.truncate(end);
    this.sizeBytes = end;
    return { lines, last };
  }

  /** As `settle`, but changes nothing. `end` is that of the last whole line, `size` that of the file. */
  async look(from: number): Promise<Written & { readonly end: number; readonly size: number }> {
    const { size } = await this.file.stat();
    const buffer = Buffer.allocUnsafe(tailBytes);
    let lines = 0;
    let end = (await this.#endsLine(from, size)) ? from : 0;
    for (let at = end; at < size;) {
      const { bytesRead } = await this.file.read(buffer, 0, buffer.length, at);
      if (bytesRead === 0) break;
      const chunk = buffer.subarray(0, bytesRead);
      for (let index = chunk.indexOf(newline); index >= 0; index = chunk.indexOf(newline, index + 1)) {
        lines += 1;
        end = at + index + 1;
      }
      at += bytesRead;
    }
    return { lines, last: await this.#lineBefore(end, buffer), end, size };
  }

  async #endsLine(offset: number, size: number): Promise<boolean> {
    if (offset === 0) return true;
    if (offset > size) return false;
    const { buffer } = await this.file.read(Buffer.alloc(1), 0, 1, offset - 1);
    return buffer[0] === newline;
  }

  /** The first bytes, as many as there are. */
  async head(bytes: number): Promise<Buffer> {
    const buffer = Buffer.alloc(bytes);
    const { bytesRead } = await this.file.read(buffer, 0, bytes, 0);
    return buffer.subarray(0, bytesRead);
  }

  async #lineBefore(end: number, buffer: Buffer): Promise<Buffer | undefined> {
    const start = Math.max(0, end - buffer.length);
    const { bytesRead } = await this.file.read(buffer, 0, end - start, start);
    if (bytesRead < 2) return undefined;
    const before = buffer.lastIndexOf(newline, bytesRead - 2);
    return before < 0 && start > 0 ? undefined : Buffer.from(buffer.subarray(before + 1, bytesRead));
  }

  /** Makes the appended lines survive a power cut. */
  async flush(): Promise<void> {
    await this.file.sync();
  }

  async close(): Promise<void> {
    await this.file.close();
  }
}

/** Files beside the log path whose names begin with its name. */
async function rotatedPaths(path: string): Promise<readonly string[]> {
  const directory = dirname(path);
  const prefix = `${basename(path)}.`;
  const names = await namesIn(directory);
  return names.filter((name) => name.startsWith(prefix)).map((name) => join(directory, name));
}
