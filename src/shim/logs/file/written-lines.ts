/** The lines of a log file beyond its recorded position: a killed predecessor wrote them, and they are not written again. */
import type { Written } from "../sink/log-sink.js";

const newline = 0x0a;

/** What a comparison with the source has shown. */
export type Comparison =
  /** The source has the lines that are in the file. */
  | "same"
  /** Somebody else wrote to the file, or took lines away: see `search`. */
  | "changed";

export class WrittenLines {
  #remaining: number;
  #last: Buffer | undefined;
  #isSearching = false;

  /** `startsWithNotice`: the first of them is a line of ours, which no source has. */
  constructor({ lines, last }: Written, { startsWithNotice }: { readonly startsWithNotice: boolean }) {
    this.#remaining = startsWithNotice ? lines - 1 : lines;
    this.#last = this.#remaining > 0 ? last : undefined;
  }

  /** Whether lines of the source are still to be skipped. */
  get isSkipping(): boolean {
    return this.#isSearching || this.#remaining > 0;
  }

  /** Of the next `lines` of the source, formatted as they are written, so many are to be skipped. */
  among(lines: Buffer, count: number): number {
    if (!this.#isSearching) return Math.min(count, this.#remaining);
    const end = this.#last === undefined ? -1 : endOf(this.#last, lines);
    return end < 0 ? count : countLines(lines.subarray(0, end));
  }

  /** `count` lines of the source, which are `lines`, were skipped: as many as `among` has said. */
  skipped(lines: Buffer, count: number): Comparison {
    this.#remaining = Math.max(0, this.#remaining - count);
    if (this.#remaining > 0 || count === 0) return "same";
    const isLast = this.#last === undefined || lines.subarray(-this.#last.length).equals(this.#last);
    if (isLast) this.forget();
    return isLast || this.#isSearching ? "same" : "changed";
  }

  /**
   * How many lines are to be skipped is not known any more: all up to the last one of the file. False when
   * that was looked for already. The source is to be read from the recorded position once more.
   */
  search(): boolean {
    if (this.#isSearching || this.#last === undefined) return false;
    this.#remaining = 0;
    this.#isSearching = true;
    return true;
  }

  /** The source has no such lines: none are skipped any more. */
  forget(): void {
    this.#remaining = 0;
    this.#last = undefined;
    this.#isSearching = false;
  }
}

export function countLines(lines: Buffer): number {
  let count = 0;
  for (let at = lines.indexOf(newline); at >= 0; at = lines.indexOf(newline, at + 1)) count += 1;
  return count;
}

/** Where `line` ends in `lines`; negative when it is not one of them. */
function endOf(line: Buffer, lines: Buffer): number {
  for (let at = lines.indexOf(line); at >= 0; at = lines.indexOf(line, at + 1)) {
    if (at === 0 || lines[at - 1] === newline) return at + line.length;
  }
  return -1;
}
