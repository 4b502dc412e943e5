/**
 * Writes the history of a converted log, once a link to the engine's file: into a file beside it, in the
 * CRI's format, up to where the log itself begins. One chunk at a time, in turn with other logs.
 */
import { basename, dirname, join } from "node:path";
import { messageOf } from "../../../lib/errors.js";
import type { Logger } from "../../../lib/log.js";
import { Lock } from "../../../lib/sync/semaphore.js";
import type { LogTarget } from "../../ports/container-logs.js";
import { removeBeside, renameBeside } from "./engine-links.js";
import { timeIn } from "../api/replay.js";
import { cutNotice, droppedNotice } from "../gaps.js";
import { formatEntries, nothingFormatted } from "../file/json-entries.js";
import { JsonFileReader, type ReaderOptions } from "../file/json-file-reader.js";
import type { LogOutput } from "../sink/log-output.js";
import type { LogHistory } from "../log-record.js";
import { LogSink } from "../sink/log-sink.js";
import { longestEntryBytes } from "../log-source.js";
import { RotatedFiles } from "../file/rotated-files.js";
import type { Turn, TurnBuffers, TurnQueue } from "../turn-queue.js";

/** Older lines are left in the engine's file: it may have grown without limit, and is on the disk already. */
const limitBytes = 256 * 1024 * 1024;
const newline = 0x0a;

/** Kubelets ignore a file of this name. It goes with its directory, or with the container. */
export function historyTemporary(target: LogTarget): LogTarget {
  return { ...target, path: join(dirname(target.path), `.${basename(target.path)}.history`) };
}

export class HistoryWriter {
  readonly #locks = new Lock();
  readonly #reader: JsonFileReader;
  readonly #files: RotatedFiles;
  readonly #formatted = nothingFormatted();
  #sink: LogSink | undefined;
  #large: TurnBuffers | undefined;
  /** The next chunk begins within an entry. */
  #isCut = false;
  /** Lines were read from the last file of the history. */
  #wasInLast = false;
  /** Lines are left out, and the notice is not written yet. */
  #notice: ((time: string) => string) | undefined;
  #phase: "writing" | "failed" | "ended" = "writing";
  readonly #run: Turn = (buffers) => this.#locks.run(() => this.#turn(buffers));

  constructor(
    private readonly output: Pick<LogOutput, "record" | "target" | "endHistory">,
    private readonly history: LogHistory,
    source: ReaderOptions,
    private readonly queue: TurnQueue,
    private readonly log: Pick<Logger, "warn" | "info">,
    private readonly maximumBytes = limitBytes,
  ) {
    this.#reader = new JsonFileReader(source);
    this.#files = new RotatedFiles(source.path, source.archiveLimitBytes);
  }

  start(): void {
    this.queue.add(this.#run);
  }

  /** After a failure: writes the whole history again. */
  retry(): void {
    if (this.#phase !== "failed") return;
    this.#phase = "writing";
    this.start();
  }

  /** Stops writing, and removes an incomplete file. The next process starts again. */
  async stop(): Promise<void> {
    await this.#locks.run(async () => {
      if (this.#phase === "writing") await this.#drop();
      this.#phase = "ended";
    });
  }

  async #turn(buffers: TurnBuffers): Promise<boolean> {
    if (this.#phase !== "writing") return false;
    try {
      if (this.#sink === undefined && !(await this.#begin())) {
        await this.#end();
        return false;
      }
      if (await this.#copyChunk(this.#large ?? buffers)) return true;
      await this.#end();
    } catch (error) {
      this.#phase = "failed";
      await this.#drop();
      const { containerId } = this.output.record;
      this.log.warn(
        { containerId, path: this.history.path, err: messageOf(error) },
        "cannot write the history of a converted log: it stays in the engine's file, " +
          "and is written at the next rotation or start",
      );
    }
    return false;
  }

  /** False without a history. */
  async #begin(): Promise<boolean> {
    if (this.history.file === "") return false;
    const begin = await this.#files.before(this.history, this.maximumBytes);
    if (begin === undefined) {
      this.#warnGone();
      return false;
    }
    this.#isCut = begin.isCut;
    this.#notice = begin.isCut ? cutNotice : undefined;
    const step = await this.#reader.open(begin);
    if (step !== "next" && !(await this.#passGap())) return false;
    this.#wasInLast = begin.file === this.history.file;
    const temporary = historyTemporary(this.output.target);
    await removeBeside(temporary, temporary.path);
    this.#sink = await LogSink.open(temporary, { create: true });
    return this.#sink !== undefined;
  }

  /** Whether there is more. */
  async #copyChunk(buffers: TurnBuffers): Promise<boolean> {
    const read = await this.#reader.read(buffers.input, { isFresh: false });
    const { file, offset } = this.#reader.place;
    const isLast = file === this.history.file;
    if (this.#wasInLast && !isLast) {
      // Docker has emptied its only file: its entries are no longer those of the history.
      this.#warnGone();
      return false;
    }
    this.#wasInLast = isLast;
    const bytes = isLast ? Math.min(read, this.history.offset - offset) : read;
    if (isLast && bytes <= 0) return false;
    const skipped = this.#isCut ? buffers.input.subarray(0, bytes).indexOf(newline) + 1 : 0;
    const formatted = this.#formatted;
    formatEntries(buffers.input.subarray(skipped, bytes), buffers.output, Number.MAX_SAFE_INTEGER, formatted);
    if (formatted.consumed === 0) {
      if (bytes === buffers.input.length) return this.#enlarge(bytes);
      return !isLast && this.#next();
    }
    const lines = buffers.output.subarray(0, formatted.produced);
    if (this.#notice !== undefined && lines.length > 0) {
      await this.#append(Buffer.from(this.#notice(timeIn(lines))));
      this.#notice = undefined;
    }
    await this.#append(lines);
    this.#isCut = false;
    this.#large = undefined;
    this.#reader.advance(skipped + formatted.consumed);
    return true;
  }

  /** Goes to the next file. False when the engine has dropped it. */
  async #next(): Promise<boolean> {
    const step = await this.#reader.next();
    if (step === "next") return true;
    if (step !== "end") return this.#passGap();
    this.#warnGone();
    return false;
  }

  /** Continues in the oldest file that is left. Whether it is of the history, whose last file then exists. */
  async #passGap(): Promise<boolean> {
    this.#warnGone();
    this.#notice = droppedNotice;
    return (await this.#files.before(this.history, this.maximumBytes)) !== undefined;
  }

  #enlarge(bytes: number): true {
    const larger = bytes * 4;
    if (bytes >= longestEntryBytes) this.#reader.advance(bytes);
    else this.#large = { input: Buffer.allocUnsafeSlow(larger), output: Buffer.allocUnsafeSlow(larger) };
    return true;
  }

  async #append(lines: Buffer): Promise<void> {
    const appended = await this.#sink?.append(lines);
    if (appended?.error !== undefined) throw appended.error;
  }

  async #end(): Promise<void> {
    const { target } = this.output;
    const file = this.#sink && { inode: this.#sink.inode, size: this.#sink.size };
    if (this.#sink !== undefined) {
      await this.#sink.flush();
      await renameBeside(target, historyTemporary(target).path, this.history.path);
    }
    await this.output.endHistory(file);
    this.#phase = "ended";
    await this.#close();
  }

  /** Never rejects. */
  async #drop(): Promise<void> {
    try {
      await this.#close();
      await removeBeside(this.output.target, historyTemporary(this.output.target).path);
    } catch (error) {
      const { containerId } = this.output.record;
      this.log.warn({ containerId, err: messageOf(error) }, "cannot remove an incomplete history file");
    }
  }

  async #close(): Promise<void> {
    const sink = this.#sink;
    this.#sink = undefined;
    this.#large = undefined;
    await this.#reader.close();
    await sink?.close();
  }

  #warnGone(): void {
    const { containerId } = this.output.record;
    this.log.warn(
      { containerId, path: this.history.path },
      "the engine has dropped a part of the history of a converted log",
    );
  }
}
