/** Checks of single fields. Each takes the field's path first and throws `invalid` naming it. */
import { isIP } from "node:net";
import {
  invalidField,
  unsupportedField,
  longestProgramBytes,
  programTooLong,
} from "../../../domain/field-errors.js";

const maxPathBytes = 4096;
/** The kernel takes no longer argument or environment entry (128 KiB with the byte that ends it). */
export const maxArgumentBytes = 128 * 1024 - 1;
/** Arguments and environment of a program, as the kernel counts them with the usual stack. */
const maxProgramBytes = 2 * 1024 * 1024;
/** Each string is also a pointer and a byte that ends it. */
const overheadBytes = 9;

/** All that the protocol can carry, for fields whose larger values are cut behind the check. */
export const int64 = { min: -(2n ** 63n), max: 2n ** 63n - 1n };
/** What a JSON number carries exactly: the Engine API takes its 64-bit fields as such. */
export const maxInteger = BigInt(Number.MAX_SAFE_INTEGER);

/** The sub-message, which must be there. */
export function present<T>(field: string, message: T | null): T {
  if (message === null) throw invalidField(field, "is missing");
  return message;
}

/** Whether no field was sent: some clients send such a message where others send none. */
export function isEmptyMessage(message: object): boolean {
  return Object.values(message).every(
    (value: unknown) =>
      value === null ||
      value === "" ||
      value === 0 ||
      value === "0" ||
      value === false ||
      (typeof value === "object" && Object.keys(value).length === 0),
  );
}

export function withoutWindows(field: string, message: object | null): void {
  if (message === null || isEmptyMessage(message)) return;
  throw unsupportedField(field, "this is a runtime for Linux containers");
}

export function notEmpty(field: string, value: string): void {
  if (value === "") throw invalidField(field, "must not be empty");
}

/** No NUL byte: C strings end there, so what is checked would not be what is used. */
export function noNul(field: string, value: string): void {
  if (value.includes("\0")) throw invalidField(field, "contains a NUL byte");
}

/** One word of a configuration line: neither empty nor with white space or control characters. */
export function word(field: string, value: string): void {
  notEmpty(field, value);
  // eslint-disable-next-line no-control-regex -- control characters are what it looks for
  if (/[\s\u0000-\u001f\u007f]/.test(value)) {
    throw invalidField(field, "contains white space or control characters", value);
  }
}

export function atMost(field: string, value: string, characters: number): void {
  if (value.length > characters) {
    throw invalidField(field, `is longer than ${characters} characters`, value);
  }
}

export function absolutePath(field: string, value: string): void {
  notEmpty(field, value);
  noNul(field, value);
  if (!value.startsWith("/")) throw invalidField(field, "is not an absolute path", value);
  if (Buffer.byteLength(value) > maxPathBytes) {
    throw invalidField(field, `is longer than ${maxPathBytes} bytes`, value);
  }
}

/** One element of argv. The value is not shown: it may hold a secret. */
export function argument(field: string, value: string): void {
  noNul(field, value);
  argumentSize(field, Buffer.byteLength(value));
}

/** One element of argv, or one `NAME=value`. */
export function argumentSize(field: string, bytes: number): void {
  if (bytes > maxArgumentBytes) {
    throw invalidField(field, `is longer than ${maxArgumentBytes} bytes, which the kernel does not take`);
  }
}

/** The first word of a command. */
export function program(field: string, value: string): void {
  if (Buffer.byteLength(value) > longestProgramBytes) throw programTooLong(field);
}

/** What a program is started with. `field` names the part that makes it too much. */
export function programSize(field: string, sizes: Iterable<number>): void {
  let total = 0;
  for (const bytes of sizes) total += bytes + overheadBytes;
  if (total > maxProgramBytes) {
    throw invalidField(
      field,
      `arguments and environment have ${total} bytes, the kernel takes at most ${maxProgramBytes}`,
    );
  }
}

/** Enums arrive as numbers, also those that no version of the protocol knows. */
export function enumValue(field: string, value: number, members: Readonly<Record<string, number>>): void {
  if (!Object.values(members).includes(value)) {
    const known = Object.entries(members).map(([name, number]) => `${name} (${number})`);
    throw invalidField(field, `${value} is none of ${known.join(", ")}`);
  }
}

export function integer(
  field: string,
  value: string,
  range: { readonly min: bigint; readonly max: bigint },
): void {
  const number = /^-?\d{1,20}$/.test(value) ? BigInt(value) : undefined;
  if (number === undefined || number < range.min || number > range.max) {
    throw invalidField(field, `must be in the range ${range.min} to ${range.max}`, value);
  }
}

export function ipAddress(field: string, value: string): void {
  if (isIP(value) === 0 || value.includes("%")) throw invalidField(field, "is not an IP address", value);
}

/** `10.0.0.0/24` or `fd00::/64`. */
export function cidr(field: string, value: string): void {
  const match = /^([^/]+)\/(\d{1,3})$/.exec(value);
  const version = isIP(match?.[1] ?? "");
  if (version === 0 || Number(match?.[2]) > (version === 4 ? 32 : 128)) {
    throw invalidField(field, "is not a CIDR", value);
  }
}

/** The path of element `index` of a list. */
export function at(field: string, index: number): string {
  return `${field}[${index}]`;
}
