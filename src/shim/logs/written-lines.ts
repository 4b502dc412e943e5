/** The lines of a log file beyond its recorded position: a killed predecessor wrote them, and they are not written again. */
import type { Written } from "./log-sink.js";

/** What a comparison with the source has shown. */
export type Comparison =
  /** The source has the lines that are in the file. */
  | "same"
  /** Somebody else wrote to the file, or took lines away. */
  | "changed";

export class WrittenLines {
  #remaining: number;
  #last: Buffer | undefined;

  /** `startsWithNotice`: the first of them is a line of ours, which no source has. */
  constructor({ lines, last }: Written, { startsWithNotice }: { readonly startsWithNotice: boolean }) {
    this.#remaining = startsWithNotice ? lines - 1 : lines;
    this.#last = this.#remaining > 0 ? last : undefined;
  }

  /** How many lines of the source are still to be skipped. */
  get remaining(): number {
    return this.#remaining;
  }

  /** `count` lines of the source, formatted as they are written, were skipped. */
  skipped(lines: Buffer, count: number): Comparison {
    this.#remaining -= count;
    if (this.#remaining > 0) return "same";
    const last = this.#last;
    this.#last = undefined;
    return last === undefined || lines.subarray(-last.length).equals(last) ? "same" : "changed";
  }

  /** The source has no such lines: none are skipped any more. */
  forget(): void {
    this.#remaining = 0;
    this.#last = undefined;
  }
}
