/** Timestamps of the CRI and Docker, the wall clock, and a clock that tests can replace. */

/** Nanoseconds since the Unix epoch. Exceeds 2^53: never a Number. */
export type Nanoseconds = bigint;

const rfc3339 = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d)$/;

/** Nanoseconds of an RFC 3339 time; 0n, the CRI's "never", for Docker's year 1 and invalid text. */
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

/** As kubelets name rotated logs: `20060102-150405`, in UTC. */
export function rotationTime(date: Date): string {
  return date.toISOString().slice(0, 19).replace(/[-:]/g, "").replace("T", "-");
}

/** Above this the clocks were moved against each other; below, read one after the other. */
const toleranceMs = 2;
const lastMicrosecond = 0.999;

/** Follows corrections of the system's clock, and a suspend; between them it does not go back. */
export class WallClock {
  #offsetMs = performance.timeOrigin;

  /** In the form of Docker: `2026-01-02T15:04:05.123456000Z`. */
  now(): string {
    const monotonicMs = performance.now();
    const wholeMs = Date.now();
    if (Math.abs(this.#offsetMs + monotonicMs - wholeMs) > toleranceMs)
      this.#offsetMs = wholeMs - monotonicMs;
    const fraction = Math.min(Math.max(this.#offsetMs + monotonicMs - wholeMs, 0), lastMicrosecond);
    const micro = String(Math.floor(fraction * 1000)).padStart(3, "0");
    return `${new Date(wholeMs).toISOString().slice(0, -1)}${micro}000Z`;
  }
}

/** A monotonic clock with timers, which tests replace. */
export interface Clock {
  /** Milliseconds that only grow. */
  now(): number;
  /** Runs `work` once, unless the returned function is called before. Keeps no process alive. */
  after(milliseconds: number, work: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  after(milliseconds, work) {
    const timer = setTimeout(work, milliseconds);
    timer.unref();
    return () => clearTimeout(timer);
  },
};
