/** Where one is in a log that can only be read again from a second onwards. */
import { beginning, type SourcePosition } from "../log-record.js";

const newline = 0x0a;
/** `2026-01-02T15:04:05`; the fraction follows. */
const secondLength = 19;
/** Entries of two streams may be stored a little out of order; a replay begins so much before the last one. */
export const marginSeconds = 2;

/**
 * Counts the lines of each second of one replay, those included that were written before. A replay from
 * second `since` has all lines of that second and later, in the same order each time: so `since`, and how
 * many of them are written, is a position. While the clock, which was set back, runs through a stretch of
 * time once more, `since` stays before that stretch: from within it, engines answer different lines.
 */
export class ReplayCounter {
  readonly #counts = new Map<number, number>();
  #since: number;
  #text = "";
  #second = 0;
  #newest = 0;
  /** The last second before the clock was set back; negative when it was not. */
  #stretchEnd = -1;
  #setBackTo: number | undefined;

  constructor(since: number) {
    this.#since = since;
  }

  /** Whether the clock was set back between two lines of the replay, or between `second` and all of them. */
  hasSetBackSince(second: number): boolean {
    return this.#stretchEnd >= 0 || this.#newest < second - marginSeconds;
  }

  /** Whether the clock was set back between two lines that a replay from the position has. */
  get hasStepBack(): boolean {
    return this.#since <= this.#stretchEnd;
  }

  /**
   * From which second on a replay has all lines since the clock was set back, when one was counted that is
   * older.
   */
  get setBackTo(): number | undefined {
    return this.#setBackTo;
  }

  get position(): SourcePosition {
    let lines = 0;
    for (const count of this.#counts.values()) lines += count;
    return { ...beginning, since: this.#since, lines };
  }

  /** Whole lines of the CRI's format, which are written now. */
  add(lines: Buffer): void {
    this.#count(lines, { moveOn: true });
  }

  /** The same, of lines that were written before: the clock may have been set back behind them. */
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
        if (this.#second < this.#newest - marginSeconds) this.#stretchEnd = this.#newest;
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
    if (since <= this.#since || since <= this.#stretchEnd) return;
    this.#since = since;
    for (const second of this.#counts.keys()) if (second < since) this.#counts.delete(second);
  }
}

/** Where a replay begins that is to have all lines of a second. */
export function beforeSecond(second: number): number {
  return Math.max(0, second - marginSeconds);
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
