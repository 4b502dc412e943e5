/** Values in the text of cgroup files, of both versions. */
import type { Pressure, PressureShare } from "../../domain/resource-reading.js";

/** Version 1 writes the highest multiple of a page for "unlimited"; nobody has an exbibyte. */
const unlimited = 2 ** 60;

/** A file's text by controller (empty for version 2) and name; undefined when there is none. */
export type CgroupText = (controller: string, file: string) => string | undefined;

/** The one number of a file; undefined for `max`, for values that stand for "unlimited", and for anything else. */
export function numberIn(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = Number.parseInt(text, 10);
  return value >= 0 && value < unlimited ? value : undefined;
}

/** The value after `key` in lines `key value`. */
export function valueOf(text: string, key: string): number | undefined {
  const line = `${key} `;
  let start = text.startsWith(line) ? 0 : text.indexOf(`\n${line}`) + 1;
  if (start === 0 && !text.startsWith(line)) return undefined;
  start += line.length;
  const end = text.indexOf("\n", start);
  return numberIn(end === -1 ? text.slice(start) : text.slice(start, end));
}

const pressureLine = /^(some|full) avg10=([\d.]+) avg60=([\d.]+) avg300=([\d.]+) total=(\d+)$/gm;

/** `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`, and the same for `full`, which older kernels lack for CPU. */
export function pressureIn(text: string | undefined): Pressure | undefined {
  if (text === undefined) return undefined;
  let some: PressureShare | undefined;
  let full: PressureShare | undefined;
  for (const [, kind, avg10, avg60, avg300, total] of text.matchAll(pressureLine)) {
    const share: PressureShare = {
      totalMicroseconds: Number(total),
      avg10: Number(avg10),
      avg60: Number(avg60),
      avg300: Number(avg300),
    };
    if (kind === "some") some = share;
    else full = share;
  }
  return some === undefined ? undefined : { some, full: full ?? none };
}

const none: PressureShare = { totalMicroseconds: 0, avg10: 0, avg60: 0, avg300: 0 };
