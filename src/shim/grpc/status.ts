/** From error kinds to gRPC status: the only place that knows the codes. */
import { ShimError, type ErrorKind } from "../../lib/errors.js";

/** https://grpc.io/docs/guides/status-codes/ */
export const status = {
  OK: 0,
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
} as const;

const codes: Readonly<Record<ErrorKind, number>> = {
  invalid: status.INVALID_ARGUMENT,
  notFound: status.NOT_FOUND,
  conflict: status.ALREADY_EXISTS,
  precondition: status.FAILED_PRECONDITION,
  unsupported: status.UNIMPLEMENTED,
  unavailable: status.UNAVAILABLE,
  timeout: status.DEADLINE_EXCEEDED,
  cancelled: status.CANCELLED,
  exhausted: status.RESOURCE_EXHAUSTED,
  denied: status.PERMISSION_DENIED,
  internal: status.INTERNAL,
  unknown: status.UNKNOWN,
};

/** The text is sent in a header, and some clients fall silent on too many bytes of headers. */
const longestDetailsBytes = 4096;

export interface CallStatus {
  readonly code: number;
  readonly details: string;
}

/** What the caller is told of `error`. The text is cut to 4 KiB and always valid Unicode. */
export function statusOf(error: unknown): CallStatus {
  const { kind, message } = ShimError.from(error);
  return { code: codes[kind], details: cutText(message === "" ? kind : message, longestDetailsBytes) };
}

/** `INVALID_ARGUMENT`, as logs and metrics name a code. */
export function codeName(code: number): string {
  return codeNames.get(code) ?? String(code);
}

const codeNames: ReadonlyMap<number, string> = new Map(
  Object.entries(status).map(([name, code]) => [code, name]),
);

/** What fits into `limitBytes` of UTF-8, without half characters; unpaired surrogates become U+FFFD. */
export function cutText(text: string, limitBytes: number): string {
  const bytes = Buffer.from(text, "utf8");
  if (bytes.length <= limitBytes) return bytes.toString("utf8");
  let end = limitBytes;
  // The bytes behind the first of a character are 0b10xxxxxx.
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return bytes.toString("utf8", 0, end);
}
