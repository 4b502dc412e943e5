/**
 * Reads the text of cgroup and /proc files from front to back, without a string or an array for each part: a
 * kubelet's statistics are some thousand such files every ten seconds.
 */
import type { Pressure, PressureShare } from "../../domain/resource-reading.js";

const [newline, space, point, zero, nine] = [0x0a, 0x20, 0x2e, 0x30, 0x39];
/** Numbers of so many digits are exact when their digits are summed up. */
const exactDigits = 15;
/** Counts have no more; version 1 of cgroups writes "unlimited" with 19. */
const mostDigits = 18;

export class TextScanner {
  /** `at` is where the next part begins. */
  constructor(
    private readonly text: string,
    private at = 0,
  ) {}

  /** Whether `literal` comes next; goes behind it then. */
  take(literal: string): boolean {
    if (!this.text.startsWith(literal, this.at)) return false;
    this.at += literal.length;
    return true;
  }

  skipSpaces(): void {
    while (this.text.charCodeAt(this.at) === space) this.at += 1;
  }

  /** Whether the line, or the text, ends here. */
  atLineEnd(): boolean {
    return this.at >= this.text.length || this.text.charCodeAt(this.at) === newline;
  }

  /** Goes to the begin of the next line; false when there is none. */
  nextLine(): boolean {
    const end = this.text.indexOf("\n", this.at);
    this.at = end === -1 ? this.text.length : end + 1;
    return this.at < this.text.length;
  }

  /** Decimal digits; NaN when none comes next. Up to 18 digits it is the nearest double, beyond one beside it. */
  integer(): number {
    const start = this.at;
    return this.#checked(start, this.#digits(0));
  }

  /** As `integer`, with or without digits behind a point. */
  decimal(): number {
    const start = this.at;
    const whole = this.#digits(0);
    if (this.at === start || this.text.charCodeAt(this.at) !== point) return this.#checked(start, whole);
    this.at += 1;
    const fraction = this.at;
    const value = this.#digits(whole);
    let divisor = 1;
    for (let digit = fraction; digit < this.at; digit += 1) divisor *= 10;
    // Of two exact numbers the quotient is the double that is nearest to the text.
    return this.#checked(start, value / divisor);
  }

  /** `value` with the digits that come next behind its own. */
  #digits(value: number): number {
    const { text } = this;
    let sum = value;
    let at = this.at;
    for (; at < text.length; at += 1) {
      const code = text.charCodeAt(at);
      if (code < zero || code > nine) break;
      sum = sum * 10 + (code - zero);
    }
    this.at = at;
    return sum;
  }

  /** `value` of the text from `start`, where summing up its digits was exact. */
  #checked(start: number, value: number): number {
    const length = this.at - start;
    if (length === 0) return NaN;
    return length <= exactDigits || length > mostDigits ? value : Number(this.text.slice(start, this.at));
  }
}

/** Larger values count as "unlimited", for which version 1 writes the highest multiple of a page. */
const unlimited = 2 ** 60;

/** A file's text by controller (empty for version 2) and name; undefined when there is none. */
export type CgroupText = (controller: string, file: string) => string | undefined;

/** The number in a file; undefined for `max`, for "unlimited", and for other text. */
export function numberIn(text: string | undefined): number | undefined {
  const value = countIn(text);
  return value === undefined || value < unlimited ? value : undefined;
}

/** As `numberIn` for what only grows: CPU time of large machines exceeds what limits write for "unlimited". */
export function countIn(text: string | undefined): number | undefined {
  return text === undefined ? undefined : countAt(text, 0);
}

/** Text with lines `key value`. Keys are best asked for in the order of the lines. */
export class KeyedText {
  /** Where the latest key was found. */
  #at = 0;

  constructor(private readonly text: string) {}

  /** Undefined when there is no such line, or when it has no number. */
  value(key: string): number | undefined {
    let at = this.#lineOf(key, this.#at);
    if (at === -1 && this.#at > 0) at = this.#lineOf(key, 0);
    if (at === -1) return undefined;
    this.#at = at;
    return countAt(this.text, at + key.length + 1);
  }

  #lineOf(key: string, from: number): number {
    const { text } = this;
    for (let at = text.indexOf(key, from); at !== -1; at = text.indexOf(key, at + 1)) {
      const isLine = at === 0 || text.charCodeAt(at - 1) === newline;
      if (isLine && text.charCodeAt(at + key.length) === space) return at;
    }
    return -1;
  }
}

function countAt(text: string, at: number): number | undefined {
  const value = new TextScanner(text, at).integer();
  return Number.isNaN(value) ? undefined : value;
}

/** `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`; also `full`, which older kernels lack for CPU. */
export function pressureIn(text: string | undefined): Pressure | undefined {
  if (text === undefined) return undefined;
  const scanner = new TextScanner(text);
  let some: PressureShare | undefined;
  let full: PressureShare | undefined;
  do {
    if (scanner.take("some ")) some = pressureShare(scanner) ?? some;
    else if (scanner.take("full ")) full = pressureShare(scanner) ?? full;
  } while (scanner.nextLine());
  return some === undefined ? undefined : { some, full: full ?? none };
}

/** Undefined when the line is none of those. */
function pressureShare(scanner: TextScanner): PressureShare | undefined {
  // The usual line: no wait of late.
  const isIdle = scanner.take("avg10=0.00 avg60=0.00 avg300=0.00");
  const avg10 = isIdle ? 0 : averageIn(scanner, "avg10=");
  const avg60 = isIdle ? 0 : averageIn(scanner, " avg60=");
  const avg300 = isIdle ? 0 : averageIn(scanner, " avg300=");
  const totalMicroseconds = scanner.take(" total=") ? scanner.integer() : NaN;
  // The sum is NaN when one of them is.
  if (Number.isNaN(avg10 + avg60 + avg300 + totalMicroseconds) || !scanner.atLineEnd()) return undefined;
  return { totalMicroseconds, avg10, avg60, avg300 };
}

function averageIn(scanner: TextScanner, name: string): number {
  return scanner.take(name) ? scanner.decimal() : NaN;
}

const none: PressureShare = { totalMicroseconds: 0, avg10: 0, avg60: 0, avg300: 0 };
