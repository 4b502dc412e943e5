/** Writers of the values that are no messages: each checks that the value is of its type. */
import type { WireOutput } from "./wire-output.js";

/** Writes a value, with its length before it when its wire type has one. Throws WrongValue. */
export type Write = (output: WireOutput, value: unknown) => void;

export interface ValueWriter {
  readonly wire: number;
  readonly write: Write;
}

/** A value of another type than its field's; `path` leads to the field. */
export class WrongValue extends Error {
  constructor(
    message: string,
    readonly path = "",
  ) {
    super(message);
  }
}

const varint = 0;
const fixed64 = 1;
export const lengthDelimited = 2;

/** What the CRI has. A fraction is cut off; large numbers are taken modulo 2^32 or 2^64. */
export const scalarWriters: Readonly<Record<string, ValueWriter>> = {
  string: {
    wire: lengthDelimited,
    write: (output, value) => {
      if (typeof value !== "string") throw new WrongValue("is not a string");
      output.text(value);
    },
  },
  bytes: {
    wire: lengthDelimited,
    write: (output, value) => {
      if (!(value instanceof Uint8Array)) throw new WrongValue("is not a byte array");
      output.varint(value.length);
      output.copy(value);
    },
  },
  bool: {
    wire: varint,
    write: (output, value) => {
      if (typeof value !== "boolean") throw new WrongValue("is not a boolean");
      output.varint(value ? 1 : 0);
    },
  },
  double: {
    wire: fixed64,
    write: (output, value) => {
      if (typeof value !== "number") throw new WrongValue("is not a number");
      output.double(value);
    },
  },
  enum: { wire: varint, write: writeInt32 },
  int32: { wire: varint, write: writeInt32 },
  uint32: { wire: varint, write: (output, value) => output.varint(finite(value) >>> 0) },
  int64: { wire: varint, write: writeInt64 },
  uint64: { wire: varint, write: writeInt64 },
};

function writeInt32(output: WireOutput, value: unknown): void {
  const number = finite(value) | 0;
  if (number >= 0) output.varint(number);
  else output.varint64(0xffffffff, number >>> 0);
}

/** With or without sign: the bytes of -1 and of 2^64 - 1 are the same. */
function writeInt64(output: WireOutput, value: unknown): void {
  if (typeof value === "string") writeDecimal(output, value);
  else writeNumber(output, finite(value));
}

function writeNumber(output: WireOutput, value: number): void {
  const whole = Math.trunc(value);
  if (whole >= 0 && whole <= Number.MAX_SAFE_INTEGER) output.varint(whole);
  else if (Math.abs(whole) < 2 ** 64) writeDecimal(output, String(BigInt(whole)));
  else throw new WrongValue("is not a 64-bit number");
}

function writeDecimal(output: WireOutput, text: string): void {
  const isNegative = text.charCodeAt(0) === 0x2d;
  const first = isNegative ? 1 : 0;
  const digits = text.length - first;
  // head · 10^9 + rest, in halves of 32 bits. The head is multiplied in two parts, to stay below 2^53.
  const split = Math.max(first, text.length - 9);
  const head = readDigits(text, first, split);
  const rest = readDigits(text, split, text.length);
  if (digits === 0 || digits > 20 || Number.isNaN(head + rest)) {
    writeOddDecimal(output, text);
  } else if (digits <= 15 && !isNegative) {
    output.varint(head * 1e9 + rest);
  } else {
    const upper = Math.floor(head / 0x10000) * 1e9; // Times 2^16.
    const lower = (upper % 0x10000) * 0x10000 + (head % 0x10000) * 1e9 + rest;
    const low = lower >>> 0;
    const high = (Math.floor(upper / 0x10000) + Math.floor(lower / 2 ** 32)) >>> 0;
    if (!isNegative) output.varint64(high, low);
    else output.varint64((low === 0 ? -high : ~high) >>> 0, -low >>> 0);
  }
}

/** NaN when not all are digits. */
function readDigits(text: string, from: number, to: number): number {
  let number = 0;
  for (let index = from; index < to; index += 1) {
    const digit = text.charCodeAt(index) - 0x30;
    if (!(digit >= 0 && digit <= 9)) return NaN;
    number = number * 10 + digit;
  }
  return number;
}

/** A fraction or an exponent, as in String(number). */
function writeOddDecimal(output: WireOutput, text: string): void {
  if (!/^-?\d+(\.\d+)?(e[+-]\d+)?$/.test(text)) throw new WrongValue("is not a 64-bit number");
  writeNumber(output, Number(text));
}

function finite(value: unknown): number {
  if (typeof value !== "number" || !Number.isFinite(value)) throw new WrongValue("is not a number");
  return value;
}
