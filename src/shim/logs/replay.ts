/** Where one is in a log that can only be read again from a second onwards. */
import { beginning, type SourcePosition } from "./log-record.js";

const newline = 0x0a;
/** `2026-01-02T15:04:05`; the fraction follows. */
const secondLength = 19;
/** Entries of two streams may be stored a little out of order; a replay begins so much before the last one. */
const marginSeconds = 2;

/**
 * Counts the lines of each second of one replay, those included that were written before. A replay from second `since`
 * has all lines of that second and later, in the same order each time: so `since`, and how many of them are written, is
 * a position.
 */
export class ReplayCounter {
  readonly #counts = new Map<number, number>();
  #since: number;
  #text = "";
  #second = 0;

  constructor(since: number) {
    this.#since = since;
  }

  get position(): SourcePosition {
    let lines = 0;
    for (const count of this.#counts.values()) lines += count;
    return { ...beginning, since: this.#since, lines };
  }

  /** Whole lines of the CRI's format. */
  add(lines: Buffer): void {
    for (let start = 0; start < lines.length;) {
      const end = lines.indexOf(newline, start);
      if (end < 0) return;
      const text = lines.toString("latin1", start, start + secondLength);
      if (text !== this.#text) {
        this.#text = text;
        this.#second = secondOf(text);
        this.#moveOn();
      }
      // A clock that was set back: a replay from `since` does not have that line.
      if (this.#second >= this.#since) {
        this.#counts.set(this.#second, (this.#counts.get(this.#second) ?? 0) + 1);
      }
      start = end + 1;
    }
  }

  #moveOn(): void {
    const since = this.#second - marginSeconds;
    if (since <= this.#since) return;
    this.#since = since;
    for (const second of this.#counts.keys()) if (second < since) this.#counts.delete(second);
  }
}

/** The line as a replay has it, with all nine digits of the fraction: in Docker's files trailing zeros are left out. */
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
