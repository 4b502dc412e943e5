/** Values in the text of cgroup files, of both versions. */
import type { Pressure, PressureShare } from "../../domain/resource-reading.js";
import { TextScanner } from "../text-scanner.js";

/** Version 1 writes the highest multiple of a page for "unlimited"; nobody has an exbibyte. */
const unlimited = 2 ** 60;
const [newline, space] = [0x0a, 0x20];

/** A file's text by controller (empty for version 2) and name; undefined when there is none. */
export type CgroupText = (controller: string, file: string) => string | undefined;

/** The one number of a file; undefined for `max`, for values that stand for "unlimited", and for anything else. */
export function numberIn(text: string | undefined): number | undefined {
  return text === undefined ? undefined : numberAt(text, 0);
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
    return numberAt(this.text, at + key.length + 1);
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

function numberAt(text: string, at: number): number | undefined {
  const value = new TextScanner(text, at).integer();
  return value < unlimited ? value : undefined;
}

/** `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`, and the same for `full`, which older kernels lack for CPU. */
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
  // Most have not waited for long.
  const isIdle = scanner.take("avg10=0.00 avg60=0.00 avg300=0.00");
  const avg10 = isIdle ? 0 : averageIn(scanner, "avg10=");
  const avg60 = isIdle ? 0 : averageIn(scanner, " avg60=");
  const avg300 = isIdle ? 0 : averageIn(scanner, " avg300=");
  const totalMicroseconds = scanner.take(" total=") ? scanner.integer() : NaN;
  // The sum is no number when one of them is none.
  if (Number.isNaN(avg10 + avg60 + avg300 + totalMicroseconds) || !scanner.atLineEnd()) return undefined;
  return { totalMicroseconds, avg10, avg60, avg300 };
}

function averageIn(scanner: TextScanner, name: string): number {
  return scanner.take(name) ? scanner.decimal() : NaN;
}

const none: PressureShare = { totalMicroseconds: 0, avg10: 0, avg60: 0, avg300: 0 };
