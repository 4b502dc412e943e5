/** A log can only be read again from a second onwards: the line that was written last is searched for. */
import type { Engine, LogStream } from "../../ports/engine.js";
import { LineBuffer, OutputBatch, TimedLineAssembler, type TimedOutput } from "../cri-lines.js";

const newline = 0x0a;
/** `2026-01-02T15:04:05`; the fraction follows. */
const secondLength = 19;
/** Entries may be stored slightly out of order: a replay begins this much before the last entry. */
export const marginSeconds = 2;

/** What is known of the lines of one replay. Engines answer the same lines in the same order each time. */
export class Replay {
  /** It is behind the lines that are already in the log. */
  hasResumed = false;
  lines = 0;
  /** In seconds. */
  newest = 0;
  /** The clock was set back between two lines: newer lines come before older ones. */
  hasStepBack = false;
  #text = "";

  add(line: Buffer): void {
    this.lines += 1;
    const text = line.toString("latin1", 0, secondLength);
    // Most lines have the second of the line before.
    if (text === this.#text) return;
    this.#text = text;
    const second = secondOf(text);
    if (second < this.newest - marginSeconds) this.hasStepBack = true;
    this.newest = Math.max(this.newest, second);
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

/** Whole seconds since the epoch of `2026-01-02T15:04:05.5Z`, in UTC; 0 when it is no time. */
export function secondOf(time: string): number {
  const milliseconds = Date.parse(`${time.slice(0, secondLength)}Z`);
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
  output: TimedOutput,
  take: (lines: Buffer) => Promise<void>,
): Promise<void> {
  const lines = new LineBuffer();
  const assemblers = {
    stdout: new TimedLineAssembler("stdout", lines, output),
    stderr: new TimedLineAssembler("stderr", lines, output),
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

export function* linesIn(lines: Buffer): Generator<Buffer> {
  for (let start = 0; start < lines.length;) {
    const end = lines.indexOf(newline, start) + 1;
    yield lines.subarray(start, end);
    start = end;
  }
}

export function timeIn(line: Buffer): string {
  return line.toString("latin1", 0, Math.max(0, line.indexOf(0x20)));
}

export function secondIn(line: Buffer): number {
  return secondOf(line.toString("latin1", 0, secondLength));
}

export function lastLine(lines: Buffer): Buffer {
  const before = lines.length < 2 ? -1 : lines.lastIndexOf(newline, lines.length - 2);
  return Buffer.from(lines.subarray(before + 1));
}
