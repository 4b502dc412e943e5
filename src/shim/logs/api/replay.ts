/**
 * Replays of the logs API: a log can only be read again from a second onwards. Reads their lines in the CRI's
 * format, and counts them, so that a replay continues behind the line that was written last.
 */
import type { Engine, LogStream } from "../../ports/engine.js";
import { LineBuffer, OutputBatch, TimedLineAssembler } from "../cri-lines.js";
import { beginning, type SourcePosition } from "../log-record.js";

export const newline = 0x0a;
/** `2026-01-02T15:04:05`; the fraction follows. */
const secondLength = 19;
/** Entries may be stored slightly out of order: a replay begins this much before the last entry. */
export const marginSeconds = 2;

/**
 * Counts the lines of each second of one replay, including lines that were written before. A replay from
 * second `since` has all lines of that second and later, in the same order each time: so `since` and the
 * number of written lines are a position. After the clock was set back, it runs through a period of time
 * twice. `since` then stays before that period: for a replay from within it, engines return different lines.
 */
export class ReplayCounter {
  readonly #counts = new Map<number, number>();
  #since: number;
  #text = "";
  #second = 0;
  #newest = 0;
  /** The last second before the clock was set back; negative when it was not. */
  #repeatedUntil = -1;
  #setBackTo: number | undefined;

  constructor(since: number) {
    this.#since = since;
  }

  /** Whether the clock was set back between two lines of the replay, or between `second` and all of them. */
  hasSetBackSince(second: number): boolean {
    return this.#repeatedUntil >= 0 || this.#newest < second - marginSeconds;
  }

  /** Whether the clock was set back between two lines that a replay from the position has. */
  get hasStepBack(): boolean {
    return this.#since <= this.#repeatedUntil;
  }

  /** Set when a counted line is older than the position: a replay from this second on has all such lines. */
  get setBackTo(): number | undefined {
    return this.#setBackTo;
  }

  get position(): SourcePosition {
    let lines = 0;
    for (const count of this.#counts.values()) lines += count;
    return { ...beginning, since: this.#since, lines };
  }

  /** Counts whole lines of the CRI's format that are written now. */
  add(lines: Buffer): void {
    this.#count(lines, { moveOn: true });
  }

  /** Counts lines that were written before. The position stays, as the clock may have been set back since. */
  addOld(lines: Buffer): void {
    this.#count(lines, { moveOn: false });
  }

  #count(lines: Buffer, { moveOn }: { readonly moveOn: boolean }): void {
    for (let start = 0; start < lines.length;) {
      const end = lines.indexOf(newline, start);
      if (end < 0) return;
      const text = lines.toString("latin1", start, start + secondLength);
      if (text !== this.#text) {
        this.#text = text;
        this.#second = secondOf(text);
        if (this.#second < this.#newest - marginSeconds) this.#repeatedUntil = this.#newest;
        this.#newest = Math.max(this.#newest, this.#second);
        if (moveOn) this.#moveOn();
      }
      this.#counts.set(this.#second, (this.#counts.get(this.#second) ?? 0) + 1);
      if (moveOn && this.#second < this.#since && this.#second > 0) {
        this.#setBackTo = Math.min(this.#setBackTo ?? this.#since, beforeSecond(this.#second));
      }
      start = end + 1;
    }
  }

  #moveOn(): void {
    const since = beforeSecond(this.#second);
    if (since <= this.#since || since <= this.#repeatedUntil) return;
    this.#since = since;
    for (const second of this.#counts.keys()) if (second < since) this.#counts.delete(second);
  }
}

/** The begin of a replay that has all lines of `second`. */
export function beforeSecond(second: number): number {
  return Math.max(0, second - marginSeconds);
}

/** The line as in a replay, with all nine digits of the fraction: Docker's files leave out trailing zeros. */
export function withWholeTime(line: Buffer): Buffer {
  const head = line.toString("latin1", 0, 32);
  const [short, second = "", digits = ""] = /^(\S{19})(?:\.(\d{1,8}))?Z/.exec(head) ?? [];
  if (short === undefined) return line;
  return Buffer.concat([Buffer.from(`${second}.${digits.padEnd(9, "0")}Z`), line.subarray(short.length)]);
}

/** Seconds since the epoch of `2026-01-02T15:04:05`, in UTC; 0 when it is no time. */
export function secondOf(text: string): number {
  const milliseconds = Date.parse(`${text}Z`);
  return Number.isNaN(milliseconds) ? 0 : Math.floor(milliseconds / 1000);
}

/** The log of one container in the logs API. */
export interface ApiLog {
  readonly engine: Pick<Engine, "containerLogs">;
  readonly containerId: string;
  readonly tty: boolean;
}

export interface ApiSource extends ApiLog {
  readonly logDriver: string;
  /** Returns a function that removes the listener. */
  readonly clockSteps: { onSetBack(listener: () => void): () => void };
}

/** Passes whole lines to `take`, several at a time, until `stream` ends. They are valid during the call. */
export async function readLines(
  stream: LogStream,
  quirks: { readonly losesLineEnds: boolean },
  take: (lines: Buffer) => Promise<void>,
): Promise<void> {
  const lines = new LineBuffer();
  const assemblers = {
    stdout: new TimedLineAssembler("stdout", lines, quirks),
    stderr: new TimedLineAssembler("stderr", lines, quirks),
  };
  const batch = new OutputBatch(() => take(lines.take()));
  await stream.readOutput((name, data, endsMessage) => {
    assemblers[name].push(data);
    if (endsMessage) assemblers[name].end();
    return batch.settled();
  });
  assemblers.stdout.end();
  assemblers.stderr.end();
  await take(lines.take());
}

/** The rest of whole `lines` after the first one for which `isLast` returns true. */
export function restAfter(lines: Buffer, isLast: (line: Buffer) => boolean): Buffer {
  for (let start = 0; start < lines.length;) {
    const end = lines.indexOf(newline, start) + 1;
    const line = lines.subarray(start, end);
    start = end;
    if (isLast(line)) return lines.subarray(start);
  }
  return lines.subarray(lines.length);
}

export function timeIn(line: Buffer): string {
  return line.toString("latin1", 0, Math.max(0, line.indexOf(0x20)));
}

export function secondIn(line: Buffer): number {
  return secondOf(line.toString("latin1", 0, 19));
}

export function lastLine(lines: Buffer): Buffer {
  const before = lines.length < 2 ? -1 : lines.lastIndexOf(newline, lines.length - 2);
  return Buffer.from(lines.subarray(before + 1));
}
