/** Writes a container's log from the logs API: for log drivers without files, and for remote engines. */
import { sleep } from "../../../lib/abort.js";
import { messageOf, ShimError } from "../../../lib/errors.js";
import { Backoff } from "../../../lib/sync/backoff.js";
import type { Logger } from "../../../lib/log.js";
import { GapMarker, noticeTime } from "../gaps.js";
import type { SourcePosition } from "../log-record.js";
import type { LogWriter } from "../log-source.js";
import { retryWrite, type LogOutput } from "../sink/log-output.js";
import type { Written } from "../sink/log-sink.js";
import { setBackTo } from "./clock-steps.js";
import {
  lastLine,
  newline,
  readLines,
  ReplayCounter,
  restAfter,
  secondIn,
  timeIn,
  withWholeTime,
  type ApiSource,
} from "./replay.js";

const retryMs = { first: 200, longest: 5_000 };
const recordMs = 60_000;
const recordBytes = 16 * 1024 * 1024;
/** After so many restarts in a row there is a pause before the next one, as after other failures. */
const promptRestarts = 8;
/** Entries of two streams may be stored slightly out of order. */
const disorderSeconds = 1;

interface Gap {
  /**
   * `suspected`: the replay does not have the written lines, and `time` is that of the last one; empty when
   * all lines of the replay are newer. `announced`: the notice of the gap is written or recorded, and `time`
   * is that of the first line after it.
   */
  readonly kind: "suspected" | "announced";
  readonly time: string;
}

/** The log is to be read again from the start of the replay. */
class Restart extends Error {}

export class ApiWriter implements LogWriter {
  readonly #stop = new AbortController();
  /** Ends the present replay, for the last one. */
  #following = new AbortController();
  /** As the present replay began: the position of the file's end, and its last line. */
  #written: { readonly position: SourcePosition; readonly last: Buffer | undefined };
  #counter: ReplayCounter;
  /** How many of the next lines of the present replay are already written. */
  #skip = 0;
  #last: Buffer | undefined;
  /** The last written line, while a replay is searched for it. */
  #sought: Buffer | undefined;
  /** The clock was set back between the lines of the position: newer lines may come before the last one. */
  #hasStepBack = false;
  #restarts = 0;
  /** Nothing was read for a while, or the clock was set back, since the newest entries were checked. */
  #mayHaveSetBack = true;
  readonly #stopListening: () => void;
  /** The engine has dropped lines, and no line after them is written yet. */
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
    // The notice is the first line after the position, and in no replay.
    const startsWithNotice = position.notice !== "" && lines > 0;
    const pending = startsWithNotice ? "" : position.notice;
    const fresh = startsWithNotice ? lines - 1 : lines;
    const time = noticeTime(pending === "" ? last : Buffer.from(pending), gaps);
    // The time may be from Docker's file.
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
    return this.output.lock.run(() => this.output.reopen(this.#position));
  }

  async close(): Promise<void> {
    this.#stopListening();
    this.#stop.abort(new ShimError("cancelled", "the log is closed"));
    await this.#running;
    await this.output.lock.run(async () => {
      if (this.#unrecordedBytes > 0) await this.#record();
      await this.output.close();
    });
  }

  /** While the beginning of a replay is skipped, the position is that of the replay before. */
  get #position(): SourcePosition {
    const position = this.#isPastWritten ? this.#counter.position : this.#written.position;
    return { ...position, notice: this.#marker.notice };
  }

  /** Whether the present replay is behind the lines that were written when it began. */
  get #isPastWritten(): boolean {
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
        if (this.#stop.signal.aborted) return;
        if (this.#following.signal.aborted) continue;
        if (error instanceof Restart && (this.#restarts += 1) <= promptRestarts) continue;
        this.#mayHaveSetBack = true;
        const { containerId } = this.source;
        if (!hasReported) {
          this.log.warn({ containerId, err: messageOf(error) }, "cannot read container log, trying again");
        }
        hasReported = true;
      }
      // The container or the engine may have ended. The end of the container is reported by `finish`.
      const wake = isLast ? signal : AbortSignal.any([signal, this.#following.signal]);
      await sleep(backoff.next(), wake).catch(() => undefined);
    }
  }

  async #replay(isLast: boolean, signal: AbortSignal): Promise<void> {
    const { engine, containerId, tty, logDriver } = this.source;
    await this.#checkSetBack(signal);
    const { since, lines: written } = this.#written.position;
    this.#counter = new ReplayCounter(since);
    this.#skip = this.#gap === undefined && this.#sought === undefined ? written : 0;
    this.#last = this.#written.last;
    await this.#writeNotice(signal);
    // A search must end, also when the line is not found.
    const options = { sinceSeconds: since, follow: !isLast && this.#sought === undefined, tty };
    const stream = await engine.containerLogs(containerId, options, signal);
    try {
      await readLines(stream, { losesLineEnds: logDriver === "local" }, (lines) => this.#take(lines, signal));
      if (this.#sought !== undefined) this.#endSearch(this.#sought);
      if (this.#skip > 0 && this.#last !== undefined) this.#searchFor(this.#last);
    } finally {
      stream.close();
      this.#keepPosition();
    }
  }

  #keepPosition(): void {
    if (!this.#isPastWritten) return;
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
    await this.output.appendWithRetries(fresh, signal, async (part) => {
      this.#gap = undefined;
      this.#counter.add(part);
      this.#last = lastLine(part);
      this.#unrecordedBytes += part.length;
      const now = performance.now();
      const isDue = this.#recordedMs === 0 || now - this.#recordedMs > recordMs;
      if (isDue || this.#unrecordedBytes > recordBytes) await this.#record();
    });
    if (this.#counter.setBackTo === undefined) return;
    // The engine may have left out lines that are older than the begin of this replay.
    this.#mayHaveSetBack = true;
    throw new Restart("the clock was set back");
  }

  /**
   * A position is a second and a number of lines from there on. When the clock was set back to before that
   * second, later lines are in no replay from there until the clock has caught up.
   */
  async #checkSetBack(signal: AbortSignal): Promise<void> {
    const { position, last } = this.#written;
    if (!this.#mayHaveSetBack || this.#gap !== undefined) return;
    const from = await setBackTo(this.source, { since: position.since, last }, signal);
    this.#mayHaveSetBack = false;
    if (from !== undefined) this.#goBackTo(from);
  }

  /** The number of written lines from `since` on is not known: the replay is searched for the last one. */
  #goBackTo(since: number): void {
    const { position, last } = this.#written;
    this.#written = { position: { ...position, since, lines: last === undefined ? 0 : 1 }, last };
  }

  /** The rest of `lines` after `sought`. */
  #searchIn(lines: Buffer, sought: Buffer): Buffer {
    return restAfter(lines, (line) => {
      this.#counter.addOld(line);
      if (!line.equals(sought)) return false;
      this.#sought = undefined;
      return true;
    });
  }

  /** The rest of `lines` after those that are already written. */
  #skipIn(lines: Buffer): Buffer {
    return restAfter(lines, (line) => {
      const last = this.#last;
      if (last !== undefined && !this.#hasStepBack && secondIn(line) > secondIn(last) + disorderSeconds)
        this.#searchFor(last);
      this.#counter.addOld(line);
      if (this.#skip === 1 && last !== undefined && !line.equals(last)) this.#searchFor(last);
      this.#skip -= 1;
      return this.#skip === 0;
    });
  }

  /** The replay is not the one that was counted: the next one is searched for the last written line. */
  #searchFor(last: Buffer): never {
    this.#sought = last;
    throw new Restart("the engine answers other lines each time");
  }

  /** The engine has dropped that line: the next replay continues at its time, or at the first line. */
  #endSearch(last: Buffer): never {
    this.#sought = undefined;
    const hasSetBack = this.#counter.hasSetBackSince(secondIn(last));
    this.#gap = { kind: "suspected", time: hasSetBack ? "" : timeIn(last) };
    throw new Restart("the engine answers other lines each time");
  }

  /** The rest of `lines` after a gap. The notice of the gap is written before it is returned. */
  async #dropOld(lines: Buffer, { kind, time }: Gap, signal: AbortSignal): Promise<Buffer> {
    let rest = lines;
    while (rest.length > 0) {
      const line = rest.subarray(0, rest.indexOf(newline) + 1);
      // The times have the same length and zone: they sort as text.
      if (kind === "suspected" ? timeIn(line) > time : timeIn(line) >= time) {
        await this.#endGap(kind, line, signal);
        return rest;
      }
      this.#counter.add(line);
      rest = rest.subarray(line.length);
      if (kind === "suspected" && this.#last?.equals(line) === true) {
        // Only written lines were dropped.
        this.#gap = undefined;
        break;
      }
    }
    return rest;
  }

  /**
   * Before the first line after a gap. The lines of this replay before it count as written; the notice does
   * not count, as it is in no replay.
   */
  async #endGap(kind: Gap["kind"], next: Buffer, signal: AbortSignal): Promise<void> {
    await this.output.lock.run(async () => {
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

  /** The notice was recorded before, so that it is written once although the process is killed in between. */
  async #writeNotice(signal: AbortSignal): Promise<void> {
    await retryWrite(() => this.output.lock.run(() => this.#marker.write()), signal);
  }

  /** The first record may only have the second of the last line, which may be in the rotated file. */
  async #recordCount(): Promise<void> {
    const { since, lines } = this.output.record.position;
    const { position } = this.#counter;
    if (!this.#isPastWritten || (position.since === since && position.lines === lines)) return;
    await this.output.lock.run(() => this.#record());
  }

  async #record(): Promise<void> {
    this.#recordedMs = performance.now();
    this.#unrecordedBytes = 0;
    await this.output.save(this.#position);
  }

  async #finished(): Promise<void> {
    this.#stopListening();
    await this.output.lock.run(async () => {
      await this.output.save(this.#position, { finished: true });
      await this.output.close();
    });
  }
}
