/** Nanosecond timestamps as the CRI and Docker write them. */

/** Nanoseconds since the Unix epoch. Exceeds 2^53: never a Number. */
export type Nanoseconds = bigint;

const rfc3339 = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d)$/;

/**
 * Nanoseconds of an RFC 3339 time with up to 9 fractional digits. Docker writes year 1 for "never": that, the empty
 * string and anything unreadable give 0n, which is how the CRI says "never".
 */
export function parseTimestamp(text: string | undefined): Nanoseconds {
  const match = rfc3339.exec(text ?? "");
  if (match === null || match[1] === "0001") return 0n;
  const [, , , , , , , fraction = "", zone = "Z"] = match;
  const seconds = Date.parse((text ?? "").slice(0, 19) + zone);
  if (Number.isNaN(seconds)) return 0n;
  return BigInt(seconds) * 1_000_000n + BigInt(fraction.padEnd(9, "0"));
}

/** The present in nanoseconds (of millisecond precision). */
export function nowNanoseconds(): Nanoseconds {
  return BigInt(Date.now()) * 1_000_000n;
}
