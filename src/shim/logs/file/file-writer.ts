/** Writes a container's log from Docker's json-file, which it reads without requests to the engine. */
import { basename, dirname } from "node:path";
import { messageOf } from "../../../lib/errors.js";
import type { Logger } from "../../../lib/log.js";
import { DirectoryWatch } from "../../../lib/files/directory-watch.js";
import { GapMarker } from "../gaps.js";
import { beginning, type SourcePosition } from "../log-record.js";
import { longestEntryBytes, type LogWriter } from "../log-source.js";
import type { LogOutput } from "../sink/log-output.js";
import type { Written } from "../sink/log-sink.js";
import type { Turn, TurnBuffers, TurnQueue } from "../turn-queue.js";
import { FaultReports } from "./fault-reports.js";
import { formatEntries, nothingFormatted } from "./json-entries.js";
import { JsonFileReader, type ReaderOptions } from "./json-file-reader.js";
import { countLines, WrittenLines } from "./written-lines.js";

/** After so many wake-ups between two turns polling costs less than an event for each write. */
const floodEvents = 32;
/** After a full disk or another fault of the disk. */
const retryMs = 1_000;
/** The interval of polls while the kernel has no watch left. */
const watchPollMs = 1_000;

export class FileWriter implements LogWriter {
  readonly #reader: JsonFileReader;
  readonly #watch: DirectoryWatch;
  readonly #formatted = nothingFormatted();
  readonly #written: WrittenLines;
  readonly #gap: GapMarker;
  readonly #reports: FaultReports;
  #large: TurnBuffers | undefined;
  #isScheduled = false;
  #isDirty = false;
  #mayHaveRotated = true;
  #isPolling = false;
  /** The last turn reached the end of Docker's file. */
  #isCaughtUp = false;
  #events = 0;
  #timer: NodeJS.Timeout | undefined;
  #phase: "following" | "finishing" | "finished" | "closed" = "following";
  readonly #run: Turn = (buffers) => this.output.lock.run(() => this.#turn(buffers));
  readonly #end: Promise<void>;
  #resolveEnd!: () => void;

  constructor(
    private readonly output: LogOutput,
    written: Written,
    private readonly source: ReaderOptions,
    private readonly queue: TurnQueue,
    log: Pick<Logger, "warn">,
  ) {
    const { position } = output.record;
    this.#reports = new FaultReports(() => output.record, log);
    this.#reader = new JsonFileReader(source);
    this.#watch = new DirectoryWatch(dirname(source.path), {
      prefix: basename(source.path),
      pollMs: watchPollMs,
      onChange: (change) => {
        this.#onEvent({ mayHaveRotated: change === "rename" });
      },
    });
    // The notice is the first line after the position.
    const startsWithNotice = position.notice !== "" && written.lines > 0;
    this.#written = new WrittenLines(written, { startsWithNotice });
    this.#gap = new GapMarker(startsWithNotice ? "" : position.notice, output, () => this.#position, log);
    this.#end = new Promise((resolve) => {
      this.#resolveEnd = resolve;
    });
  }

  start(): void {
    this.#watch.start();
    this.#schedule("now");
  }

  finish(): Promise<void> {
    if (this.#phase === "following") {
      this.#phase = "finishing";
      this.#watch.stop();
      this.#mayHaveRotated = true;
      this.#isDirty = true;
      this.#schedule("now");
    }
    return this.#end;
  }

  reopen(): Promise<void> {
    return this.output.lock.run(async () => {
      await this.#skipAll();
      await this.output.reopen(this.#position);
    });
  }

  async close(): Promise<void> {
    const wasOpen = this.#phase !== "closed" && this.#phase !== "finished";
    this.#phase = "closed";
    this.#watch.stop();
    clearTimeout(this.#timer);
    await this.output.lock.run(async () => {
      if (wasOpen && this.output.hasUnrecorded) await this.output.save(this.#position);
      await this.#release();
    });
    this.#resolveEnd();
  }

  get #position(): SourcePosition {
    // Lines that are still to be skipped are behind the position, as before.
    return { ...beginning, ...this.#reader.position, notice: this.#gap.notice };
  }

  #onEvent({ mayHaveRotated }: { readonly mayHaveRotated: boolean }): void {
    if (mayHaveRotated) this.#mayHaveRotated = true;
    this.#isDirty = true;
    this.#events += 1;
    if (this.#events > floodEvents) {
      this.#watch.stop();
      this.#isPolling = true;
    }
    if (!this.#isScheduled) this.#schedule("soon");
  }

  #schedule(when: "now" | "soon" | "later"): void {
    clearTimeout(this.#timer);
    this.#isScheduled = true;
    if (when === "now") this.queue.add(this.#run);
    else if (when === "soon") this.queue.addSoon(this.#run);
    else {
      this.#timer = setTimeout(() => {
        this.queue.add(this.#run);
      }, retryMs);
    }
  }

  /** True: there is more to write at once. */
  async #turn(buffers: TurnBuffers): Promise<boolean> {
    if (this.#phase === "closed" || this.#phase === "finished") return false;
    this.#isDirty = false;
    this.#events = 0;
    let outcome: Outcome;
    try {
      outcome = await this.#copyChunk(this.#large ?? buffers);
      this.#reports.over("unreadable");
    } catch (error) {
      this.#reports.report("unreadable", { err: messageOf(error) });
      outcome = "blocked";
    }
    this.#isCaughtUp = outcome === "caughtUp" || outcome === "end";
    if (outcome === "more" || (outcome === "caughtUp" && this.#phase !== "following")) return true;
    this.#isScheduled = false;
    if (outcome === "blocked") {
      this.#schedule("later");
    } else if (this.#phase === "finishing" && outcome === "end") {
      await this.#finished();
    } else if (this.#isPolling) {
      this.#poll(outcome);
    } else if (this.#wasWoken()) {
      this.#schedule("soon");
    }
    return false;
  }

  /** Whether the engine has written since the turn began. */
  #wasWoken(): boolean {
    return this.#isDirty;
  }

  /** Without wake-ups: reads again, and waits for wake-ups again when there was nothing to read. */
  #poll(outcome: "caughtUp" | "end"): void {
    this.#mayHaveRotated = true;
    if (outcome === "caughtUp") {
      this.#schedule("soon");
      return;
    }
    this.#isPolling = false;
    this.#watch.start();
    // For entries from before the watch.
    this.#schedule("now");
  }

  async #copyChunk(buffers: TurnBuffers): Promise<Outcome> {
    if (!this.#reader.isOpen && !(await this.#open())) return "end";
    const bytes = await this.#reader.read(buffers.input, { isFresh: this.#isCaughtUp });
    if (bytes === 0) return this.#atEnd();
    const formatted = this.#formatted;
    const input = buffers.input.subarray(0, bytes);
    formatEntries(input, buffers.output, Number.MAX_SAFE_INTEGER, formatted);
    const { consumed, produced } = formatted;
    if (formatted.damaged > 0) this.#reports.report("damagedEntries", { entries: formatted.damaged });
    if (consumed === 0) {
      if (bytes < buffers.input.length) return this.#atEnd();
      this.#enlarge(buffers.input.length);
      return "more";
    }
    this.#large = undefined;
    if (this.#written.isSkipping) {
      await this.#skip(input, buffers.output);
      return "more";
    }
    if (this.#gap.isDue && produced > 0) await this.#gap.announceBefore(buffers.output.subarray(0, produced));
    if (!(await this.#gap.write())) return "blocked";
    const appended = await this.output.append(buffers.output.subarray(0, produced));
    if (appended.error !== undefined) {
      const lines = countLines(buffers.output.subarray(0, appended.bytes));
      if (lines > 0) {
        formatEntries(input, buffers.output, lines, formatted);
        this.#reader.advance(formatted.consumed);
      }
      return "blocked";
    }
    this.#reader.advance(consumed);
    await this.output.saveWhenDue(this.#position);
    return bytes === buffers.input.length ? "more" : "caughtUp";
  }

  /** Skips until the position is that of the end of the log file. */
  async #skipAll(): Promise<void> {
    if (!this.#written.isSkipping) return;
    const size = 256 * 1024;
    const buffers = { input: Buffer.allocUnsafeSlow(size), output: Buffer.allocUnsafeSlow(size) };
    while (this.#written.isSkipping) {
      this.#mayHaveRotated = true;
      if ((await this.#copyChunk(this.#large ?? buffers)) !== "more") break;
    }
  }

  /** Skips the lines of `input`, which was formatted into `output`, that are written already. */
  async #skip(input: Buffer, output: Buffer): Promise<void> {
    const formatted = this.#formatted;
    const count = this.#written.among(output.subarray(0, formatted.produced), formatted.lines);
    if (count < formatted.lines) formatEntries(input, output, count, formatted);
    const comparison = this.#written.skipped(output.subarray(0, formatted.produced), count);
    if (comparison === "changed") await this.#searchLast();
    else this.#reader.advance(formatted.consumed);
  }

  /**
   * The lines of the log file are not those of the source behind the position: another program has truncated
   * the file, or wrote to it. Reads again from the position. If the source has the last line of the file, all
   * lines up to it are written; else none.
   */
  async #searchLast(): Promise<void> {
    if (!this.#written.search()) {
      this.#written.forget();
      this.#reports.report("changedFile");
    }
    await this.#reader.close();
  }

  async #open(): Promise<boolean> {
    const step = await this.#reader.open(this.output.record.position);
    if (step === "gap") this.#noteGap();
    return step !== undefined;
  }

  async #atEnd(): Promise<Outcome> {
    const mayHaveMoved = this.#mayHaveRotated || this.source.emptiedAtBytes !== undefined;
    if (!mayHaveMoved && this.#phase === "following") return "end";
    this.#mayHaveRotated = false;
    const step = await this.#reader.next();
    if (step === "end") {
      if (!this.#written.isSkipping) return "end";
      await this.#searchLast();
      return "more";
    }
    if (step === "damaged") this.#reports.report("damagedArchive", { err: this.#reader.damage });
    if (step !== "next") this.#noteGap();
    this.#mayHaveRotated = true;
    // The old file may be removed soon: the new one is to be recorded at once.
    this.output.saveSoon();
    return "more";
  }

  #enlarge(bytes: number): void {
    if (bytes >= longestEntryBytes) {
      this.#reader.advance(bytes);
      this.#reports.report("damagedEntries", { entries: 1 });
      this.#large = undefined;
      return;
    }
    this.#large = { input: Buffer.allocUnsafeSlow(bytes * 4), output: Buffer.allocUnsafeSlow(bytes * 4) };
  }

  #noteGap(): void {
    this.#written.forget();
    this.#gap.noteGap();
  }

  async #finished(): Promise<void> {
    this.#phase = "finished";
    try {
      await Promise.all([this.output.save(this.#position, { finished: true }), this.#release()]);
    } finally {
      this.#resolveEnd();
    }
  }

  /** Never rejects: all lines are written. */
  async #release(): Promise<void> {
    for (const held of [this.#reader, this.output]) {
      try {
        await held.close();
      } catch (error) {
        this.#reports.report("notClosed", { err: messageOf(error) });
      }
    }
  }
}

/** The result of one chunk. */
type Outcome =
  /** There is more. */
  | "more"
  /** All present entries are written; the engine may be about to write the next one. */
  | "caughtUp"
  /** There was nothing to read. */
  | "end"
  /** The disk does not take it. */
  | "blocked";
