/** Writes a container's log from the engine's logs API: for log drivers without a file of lines, and engines elsewhere. */
import { sleep } from "../../lib/abort.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import { Backoff } from "../../lib/sync/backoff.js";
import type { Logger } from "../../lib/log.js";
import { lastLine, readLines, Restart, secondIn, timeIn, type ApiSource, type Gap } from "./api-lines.js";
import { GapMarker } from "../gaps.js";
import { noticeTime } from "../gap-notice.js";
import { Lock, type LogOutput } from "../sink/log-output.js";
import type { SourcePosition } from "../log-record.js";
import type { Written } from "../sink/log-sink.js";
import type { LogWriter } from "../log-writer.js";
import { setBackTo } from "./newest-entries.js";
import { appendPatiently, retryUntilTaken } from "../sink/append-with-retries.js";
import { ReplayCounter, withWholeTime } from "./replay.js";

const retryMs = { first: 200, longest: 5_000 };
const recordMs = 60_000;
const recordBytes = 16 * 1024 * 1024;
const newline = 0x0a;
/** More of them in a row wait as after other failures: the engine answers other lines each time. */
const promptRestarts = 8;
/** Entries of two streams may be stored a little out of order. */
const disorderSeconds = 1;

export class ApiWriter implements LogWriter {
  readonly #locks = new Lock();
  readonly #stop = new AbortController();
  /** Ends the present following, for the last reading. */
  #following = new AbortController();
  /** What was written when the present replay began: its first lines, and the last line in the file. */
  #written: { readonly position: SourcePosition; readonly last: Buffer | undefined };
  #counter: ReplayCounter;
  /** Lines of the present replay that are still to come and are written. */
  #skip = 0;
  #last: Buffer | undefined;
  /** The last line that is written, while a replay is looked through for it. */
  #sought: Buffer | undefined;
  /** The clock was set back between the lines of the position: newer ones may come before the last one. */
  #hasStepBack = false;
  #restarts = 0;
  /** Since the last look at the newest entries nothing was read for a while, or the clock was set back. */
  #mayHaveSetBack = true;
  readonly #stopListening: () => void;
  /** The engine has dropped lines, and none of those after them is written yet. */
  #gap: Gap | undefined;
  readonly #marker: GapMarker;
  #recordedMs = 0;
  #unrecordedBytes = 0;
  #isFinishing = false;
  #running: Promise<void> | undefined;

  constructor(
    private readonly output: LogOutput,
    { lines, last }: Written,
    private readonly source: ApiSource,
    private readonly log: Pick<Logger, "warn">,
  ) {
    const { position, gaps } = output.record;
    // A notice is the first line after the position, and no replay has it.
    const startsWithNotice = position.notice !== "" && lines > 0;
    const pending = startsWithNotice ? "" : position.notice;
    const fresh = startsWithNotice ? lines - 1 : lines;
    const time = noticeTime(pending === "" ? last : Buffer.from(pending), gaps);
    // It may be of Docker's file.
    if (time !== undefined)
      this.#gap = { kind: "announced", time: timeIn(withWholeTime(Buffer.from(`${time} `))) };
    this.#written = {
      position: { ...position, lines: position.lines + fresh },
      last: time === undefined && last !== undefined ? withWholeTime(last) : undefined,
    };
    this.#counter = new ReplayCounter(position.since);
    this.#skip = this.#gap === undefined ? this.#written.position.lines : 0;
    this.#last = this.#written.last;
    this.#marker = new GapMarker(pending, output, () => this.#position, log);
    this.#stopListening = source.clockSteps.onSetBack(() => {
      this.#mayHaveSetBack = true;
      this.#following.abort(new Restart("the clock was set back"));
    });
  }

  start(): void {
    this.#running ??= this.#run();
  }

  async finish(): Promise<void> {
    this.#isFinishing = true;
    this.#following.abort(new ShimError("cancelled", "the container has ended"));
    this.start();
    await this.#running;
  }

  reopen(): Promise<void> {
    return this.#locks.run(() => this.output.reopen(this.#position));
  }

  async close(): Promise<void> {
    this.#stopListening();
    this.#stop.abort(new ShimError("cancelled", "the log is closed"));
    await this.#running;
    await this.#locks.run(async () => {
      if (this.#unrecordedBytes > 0) await this.#record();
      await this.output.close();
    });
  }

  /** Also while the beginning of a replay is skipped: what is written are the lines of the replay before. */
  get #position(): SourcePosition {
    const position = this.#isWhereItWas ? this.#counter.position : this.#written.position;
    return { ...position, notice: this.#marker.notice };
  }

  get #isClosed(): boolean {
    return this.#stop.signal.aborted;
  }

  get #isWhereItWas(): boolean {
    return this.#skip === 0 && this.#gap === undefined && this.#sought === undefined;
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const backoff = new Backoff(retryMs);
    let hasReported = false;
    while (!signal.aborted) {
      const isLast = this.#isFinishing;
      const isSearch = this.#sought !== undefined;
      this.#following = new AbortController();
      try {
        await this.#replay(isLast, AbortSignal.any([signal, this.#following.signal]));
        if (isLast) {
          await this.#finished();
          return;
        }
        hasReported = false;
        backoff.reset();
        if (isSearch) continue;
        this.#restarts = 0;
      } catch (error) {
        if (this.#isClosed) return;
        if (this.#following.signal.aborted) continue;
        if (error instanceof Restart && (this.#restarts += 1) <= promptRestarts) continue;
        this.#mayHaveSetBack = true;
        const { containerId } = this.source;
        if (!hasReported) {
          this.log.warn(
            { containerId, err: messageOf(error) },
            "cannot read a container's log, trying again",
          );
        }
        hasReported = true;
      }
      // The container may have ended, or the engine: whoever looks after the containers will say.
      const wake = isLast ? signal : AbortSignal.any([signal, this.#following.signal]);
      await sleep(backoff.next(), wake).catch(() => undefined);
    }
  }

  async #replay(isLast: boolean, signal: AbortSignal): Promise<void> {
    const { engine, containerId, tty, logDriver } = this.source;
    await this.#lookForSetBack(signal);
    const { since, lines: written } = this.#written.position;
    this.#counter = new ReplayCounter(since);
    this.#skip = this.#gap === undefined && this.#sought === undefined ? written : 0;
    this.#last = this.#written.last;
    await this.#writeNotice(signal);
    // A search has to come to an end, found or not.
    const options = { sinceSeconds: since, follow: !isLast && this.#sought === undefined, tty };
    const stream = await engine.containerLogs(containerId, options, signal);
    try {
      await readLines(stream, { losesLineEnds: logDriver === "local" }, (lines) => this.#take(lines, signal));
      if (this.#sought !== undefined) this.#giveUpSearch(this.#sought);
      if (this.#skip > 0 && this.#last !== undefined) this.#loseSight(this.#last);
    } finally {
      stream.close();
      this.#keepPlace();
    }
  }

  #keepPlace(): void {
    if (!this.#isWhereItWas) return;
    const { position, setBackTo: to, hasStepBack } = this.#counter;
    this.#written = { position, last: this.#last };
    this.#hasStepBack = hasStepBack;
    if (to !== undefined) this.#goBackTo(to);
  }

  async #take(lines: Buffer, signal: AbortSignal): Promise<void> {
    let fresh = lines;
    if (this.#sought !== undefined) fresh = this.#searchIn(fresh, this.#sought);
    if (this.#skip > 0) fresh = this.#skipIn(fresh);
    if (this.#gap !== undefined) fresh = await this.#dropOld(fresh, this.#gap, signal);
    if (this.#recordedMs === 0) await this.#recordCount();
    if (fresh.length === 0) return;
    await appendPatiently(
      fresh,
      {
        ...{ output: this.output, lock: this.#locks },
        onAppended: async (part) => {
          this.#gap = undefined;
          this.#counter.add(part);
          this.#last = lastLine(part);
          this.#unrecordedBytes += part.length;
          const now = performance.now();
          const isDue = this.#recordedMs === 0 || now - this.#recordedMs > recordMs;
          if (isDue || this.#unrecordedBytes > recordBytes) await this.#record();
        },
      },
      signal,
    );
    if (this.#counter.setBackTo === undefined) return;
    // Engines may have left out what is older than the begin of this replay.
    this.#mayHaveSetBack = true;
    throw new Restart("the clock was set back");
  }

  /**
   * A position is a second, and so many lines from there on. Lines that are written after the clock was set
   * back behind it are in no replay from there, as long as it has not caught up.
   */
  async #lookForSetBack(signal: AbortSignal): Promise<void> {
    const { position, last } = this.#written;
    if (!this.#mayHaveSetBack || this.#gap !== undefined) return;
    const from = await setBackTo(this.source, { since: position.since, last }, signal);
    this.#mayHaveSetBack = false;
    if (from !== undefined) this.#goBackTo(from);
  }

  /** How many lines of a replay from there are written is not known: the last one is looked for. */
  #goBackTo(since: number): void {
    const { position, last } = this.#written;
    this.#written = { position: { ...position, since, lines: last === undefined ? 0 : 1 }, last };
  }

  /** What of `lines` comes after the one that is sought. */
  #searchIn(lines: Buffer, sought: Buffer): Buffer {
    for (let start = 0; start < lines.length;) {
      const end = lines.indexOf(newline, start) + 1;
      const line = lines.subarray(start, end);
      this.#counter.addOld(line);
      start = end;
      if (!line.equals(sought)) continue;
      this.#sought = undefined;
      return lines.subarray(start);
    }
    return lines.subarray(lines.length);
  }

  /** What of `lines` comes after the ones that are written. */
  #skipIn(lines: Buffer): Buffer {
    let start = 0;
    while (this.#skip > 0 && start < lines.length) {
      const end = lines.indexOf(newline, start) + 1;
      const line = lines.subarray(start, end);
      const last = this.#last;
      if (last !== undefined && !this.#hasStepBack && secondIn(line) > secondIn(last) + disorderSeconds)
        this.#loseSight(last);
      this.#counter.addOld(line);
      if (this.#skip === 1 && last !== undefined && !line.equals(last)) this.#loseSight(last);
      this.#skip -= 1;
      start = end;
    }
    return lines.subarray(start);
  }

  /** The replay is not the one that was counted. Once more, to the last line that is written. */
  #loseSight(last: Buffer): never {
    this.#sought = last;
    throw new Restart();
  }

  /** The engine has dropped that line. Once more, from its time on, or from the first line that is left. */
  #giveUpSearch(last: Buffer): never {
    this.#sought = undefined;
    const isStretch = this.#counter.hasSetBackSince(secondIn(last));
    this.#gap = { kind: "suspected", time: isStretch ? "" : timeIn(last) };
    throw new Restart();
  }

  /** What of `lines` comes after a gap, which is marked before that is written. */
  async #dropOld(lines: Buffer, { kind, time }: Gap, signal: AbortSignal): Promise<Buffer> {
    let start = 0;
    while (start < lines.length) {
      const end = lines.indexOf(newline, start) + 1;
      const line = lines.subarray(start, end);
      // Of equal length and zone: the order of the text is that of time.
      if (kind === "suspected" ? timeIn(line) > time : timeIn(line) >= time) {
        await this.#endGap(kind, line, signal);
        return lines.subarray(start);
      }
      this.#counter.add(line);
      start = end;
      if (kind === "suspected" && this.#last?.equals(line) === true) {
        // Only what is written was dropped.
        this.#gap = undefined;
        break;
      }
    }
    return lines.subarray(start);
  }

  /**
   * Before the first line after a gap. The lines of this replay that come before it are what is written of the replay;
   * the notice is not counted, no replay has it.
   */
  async #endGap(kind: Gap["kind"], next: Buffer, signal: AbortSignal): Promise<void> {
    await this.#locks.run(async () => {
      signal.throwIfAborted();
      this.#written = { position: this.#counter.position, last: this.#last };
      if (kind === "announced") {
        await this.#record();
      } else {
        this.#gap = { kind: "announced", time: timeIn(next) };
        await this.#marker.announceBefore(next);
      }
    });
    await this.#writeNotice(signal);
  }

  /** Recorded before it is written: a kill in between does not make two of it. */
  async #writeNotice(signal: AbortSignal): Promise<void> {
    await retryUntilTaken(() => this.#locks.run(() => this.#marker.write()), signal);
  }

  /** What is recorded at first may be no more than the second of the last line, which is in the file of before, perhaps. */
  async #recordCount(): Promise<void> {
    const { since, lines } = this.output.record.position;
    const { position } = this.#counter;
    if (!this.#isWhereItWas || (position.since === since && position.lines === lines)) return;
    await this.#locks.run(() => this.#record());
  }

  async #record(): Promise<void> {
    this.#recordedMs = performance.now();
    this.#unrecordedBytes = 0;
    await this.output.save(this.#position);
  }

  async #finished(): Promise<void> {
    this.#stopListening();
    await this.#locks.run(async () => {
      await this.output.save(this.#position, { finished: true });
      await this.output.close();
    });
  }
}
