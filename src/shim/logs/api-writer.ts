/** Writes a container's log from the engine's logs API: for log drivers without a file of lines, and engines elsewhere. */
import { sleep } from "../base/abort.js";
import { messageOf, ShimError } from "../base/errors.js";
import type { Logger } from "../base/log.js";
import type { Engine } from "../ports/engine.js";
import { LineBuffer, TimedLineAssembler } from "./cri-lines.js";
import { GapMarker } from "./gap-marker.js";
import { noticeTime } from "./gap-notice.js";
import { Lane, type LogOutput } from "./log-output.js";
import type { SourcePosition } from "./log-record.js";
import type { Written } from "./log-sink.js";
import type { LogWriter } from "./log-writer.js";
import { OutputBatch } from "./output-batch.js";
import { appendPatiently, retryUntilTaken } from "./patient-output.js";
import { ReplayCounter, secondOf, withWholeTime } from "./replay.js";

const retryMs = { first: 200, last: 5_000 };
const recordMs = 60_000;
const recordBytes = 16 * 1024 * 1024;
const newline = 0x0a;
/** Entries of two streams may be stored a little out of order. */
const disorderSeconds = 1;

export interface ApiSource {
  readonly engine: Pick<Engine, "containerLogs">;
  readonly containerId: string;
  readonly tty: boolean;
  readonly logDriver: string;
}

export class ApiWriter implements LogWriter {
  readonly #lane = new Lane();
  readonly #stop = new AbortController();
  /** Ends the present following, for the last reading. */
  #following = new AbortController();
  /** What was written when the present replay began: its first lines, and the last line in the file. */
  #written: { readonly position: SourcePosition; readonly last: Buffer | undefined };
  #counter: ReplayCounter;
  /** Lines of the present replay that are still to come and are written. */
  #skip = 0;
  #last: Buffer | undefined;
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
    return this.#lane.run(() => this.output.reopen(this.#position));
  }

  async close(): Promise<void> {
    this.#stop.abort(new ShimError("cancelled", "the log is closed"));
    await this.#running;
    await this.#lane.run(async () => {
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
    return this.#skip === 0 && this.#gap === undefined;
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    const { signal } = this.#stop;
    let pauseMs = retryMs.first;
    let hasReported = false;
    while (!signal.aborted) {
      const isLast = this.#isFinishing;
      this.#following = new AbortController();
      try {
        await this.#replay(isLast, AbortSignal.any([signal, this.#following.signal]));
        if (isLast) {
          await this.#finished();
          return;
        }
        hasReported = false;
        pauseMs = retryMs.first;
      } catch (error) {
        if (this.#isClosed) return;
        if (error instanceof Restart || this.#following.signal.aborted) continue;
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
      await sleep(pauseMs, wake).catch(() => undefined);
      pauseMs = Math.min(pauseMs * 2, retryMs.last);
    }
  }

  async #replay(isLast: boolean, signal: AbortSignal): Promise<void> {
    const { engine, containerId, tty, logDriver } = this.source;
    const quirks = { losesLineEnds: logDriver === "local" };
    const { since, lines: written } = this.#written.position;
    this.#counter = new ReplayCounter(since);
    this.#skip = this.#gap === undefined ? written : 0;
    this.#last = this.#written.last;
    await this.#writeNotice(signal);
    const lines = new LineBuffer();
    const assemblers = {
      stdout: new TimedLineAssembler("stdout", lines, quirks),
      stderr: new TimedLineAssembler("stderr", lines, quirks),
    };
    const options = { sinceSeconds: since, follow: !isLast, tty };
    const stream = await engine.containerLogs(containerId, options, signal);
    try {
      const batch = new OutputBatch(() => this.#take(lines.take(), signal));
      await stream.readOutput((name, data, endsMessage) => {
        assemblers[name].push(data);
        if (endsMessage) assemblers[name].end();
        return batch.settled();
      });
      assemblers.stdout.end();
      assemblers.stderr.end();
      await this.#take(lines.take(), signal);
      if (this.#skip > 0 && this.#last !== undefined) this.#loseSight(this.#last);
    } finally {
      stream.close();
      if (this.#isWhereItWas) this.#written = { position: this.#counter.position, last: this.#last };
    }
  }

  async #take(lines: Buffer, signal: AbortSignal): Promise<void> {
    let fresh = lines;
    if (this.#skip > 0) fresh = this.#skipIn(fresh);
    if (this.#gap !== undefined) fresh = await this.#dropOld(fresh, this.#gap, signal);
    if (this.#recordedMs === 0) await this.#recordCount();
    if (fresh.length === 0) return;
    await appendPatiently(
      fresh,
      {
        ...{ output: this.output, lane: this.#lane },
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
  }

  /** What of `lines` comes after the ones that are written. */
  #skipIn(lines: Buffer): Buffer {
    let start = 0;
    while (this.#skip > 0 && start < lines.length) {
      const end = lines.indexOf(newline, start) + 1;
      const line = lines.subarray(start, end);
      const last = this.#last;
      if (last !== undefined && secondIn(line) > secondIn(last) + disorderSeconds) this.#loseSight(last);
      this.#counter.add(line);
      if (this.#skip === 1 && last !== undefined && !line.equals(last)) this.#loseSight(last);
      this.#skip -= 1;
      start = end;
    }
    return lines.subarray(start);
  }

  /** The replay is not the one that was written: the engine has dropped lines. Once more, from the last line's time on. */
  #loseSight(last: Buffer): never {
    this.#gap = { kind: "suspected", time: timeIn(last) };
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
    await this.#lane.run(async () => {
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
    await retryUntilTaken(() => this.#lane.run(() => this.#marker.write()), signal);
  }

  /** What is recorded at first may be no more than the second of the last line, which is in the file of before, perhaps. */
  async #recordCount(): Promise<void> {
    const { since, lines } = this.output.record.position;
    const { position } = this.#counter;
    if (!this.#isWhereItWas || (position.since === since && position.lines === lines)) return;
    await this.#lane.run(() => this.#record());
  }

  async #record(): Promise<void> {
    this.#recordedMs = performance.now();
    this.#unrecordedBytes = 0;
    await this.output.save(this.#position);
  }

  async #finished(): Promise<void> {
    await this.#lane.run(async () => {
      await this.output.save(this.#position, { finished: true });
      await this.output.close();
    });
  }
}

interface Gap {
  /**
   * `suspected`: a replay has not the lines that were written, of which `time` is the last one's. `announced`: there is a
   * notice of the gap, written or about to be, and `time` is that of the first line after it.
   */
  readonly kind: "suspected" | "announced";
  readonly time: string;
}

/** To be read once more, from the start of the replay. */
class Restart extends Error {}

function timeIn(line: Buffer): string {
  return line.toString("latin1", 0, Math.max(0, line.indexOf(0x20)));
}

function secondIn(line: Buffer): number {
  return secondOf(line.toString("latin1", 0, 19));
}

function lastLine(lines: Buffer): Buffer {
  const before = lines.length < 2 ? -1 : lines.lastIndexOf(newline, lines.length - 2);
  return Buffer.from(lines.subarray(before + 1));
}
