/** Lines behind the recorded position, written before a kill, and not to be written again. */
import type { Written } from "../sink/log-sink.js";

const newline = 0x0a;

export class WrittenLines {
  #remaining: number;
  #last: Buffer | undefined;
  #isSearching = false;

  /** `startsWithNotice`: the first of them is a gap notice, which is in no source. */
  constructor({ lines, last }: Written, { startsWithNotice }: { readonly startsWithNotice: boolean }) {
    this.#remaining = startsWithNotice ? lines - 1 : lines;
    this.#last = this.#remaining > 0 ? last : undefined;
  }

  /** Whether lines of the source are still to be skipped. */
  get isSkipping(): boolean {
    return this.#isSearching || this.#remaining > 0;
  }

  /** How many of the next `count` lines are to be skipped. They are formatted as in the file. */
  among(lines: Buffer, count: number): number {
    if (!this.#isSearching) return Math.min(count, this.#remaining);
    const end = this.#last === undefined ? -1 : endOf(this.#last, lines);
    return end < 0 ? count : countLines(lines.subarray(0, end));
  }

  /** `count` lines were skipped, as `among` said. "changed" by another program: see `search`. */
  skipped(lines: Buffer, count: number): "same" | "changed" {
    this.#remaining = Math.max(0, this.#remaining - count);
    if (this.#remaining > 0 || count === 0) return "same";
    const isLast = this.#last === undefined || lines.subarray(-this.#last.length).equals(this.#last);
    if (isLast) this.forget();
    return isLast || this.#isSearching ? "same" : "changed";
  }

  /** From now on all lines up to the last one of the file are skipped. False when that was tried. */
  search(): boolean {
    if (this.#isSearching || this.#last === undefined) return false;
    this.#remaining = 0;
    this.#isSearching = true;
    return true;
  }

  /** No more lines are skipped: the source does not have them. */
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

/** Offset behind `line` in `lines`; negative when it is not one of them. */
function endOf(line: Buffer, lines: Buffer): number {
  for (let at = lines.indexOf(line); at >= 0; at = lines.indexOf(line, at + 1)) {
    if (at === 0 || lines[at - 1] === newline) return at + line.length;
  }
  return -1;
}
