/** The kubelet's back-off: how long a container, or the pull of an image, waits after a failure. */
import type { Clock } from "./clock.js";

export interface BackOffTimes {
  readonly firstMs: number;
  readonly longestMs: number;
}

/** The kubelet's. What runs for twice the longest delay begins anew. */
export const backOffTimes: BackOffTimes = { firstMs: 10_000, longestMs: 300_000 };

/** For `--fast`. */
export function scaled({ firstMs, longestMs }: BackOffTimes, factor: number): BackOffTimes {
  return { firstMs: firstMs * factor, longestMs: longestMs * factor };
}

interface Entry {
  readonly delayMs: number;
  readonly updatedAt: number;
}

/** A failure, and when it was asked about first. */
interface SeenFailure {
  readonly failedAt: number;
  readonly seenAt: number;
}

export class BackOff {
  readonly #entries = new Map<string, Entry>();
  readonly #seen = new Map<string, SeenFailure>();

  constructor(
    private readonly clock: Pick<Clock, "now">,
    private readonly times: BackOffTimes,
  ) {}

  /** The present delay; 0 before the first failure. */
  delayMs(key: string): number {
    return this.#entries.get(key)?.delayMs ?? 0;
  }

  /** Until when the key waits after a failure at `failedAt`; undefined when it may be tried now. */
  until(key: string, failedAt: number): number | undefined {
    const entry = this.#valid(key, failedAt);
    if (entry === undefined) return undefined;
    const until = this.#notLaterThanNow(key, failedAt) + entry.delayMs;
    return this.clock.now() < until ? until : undefined;
  }

  /** A failure lies in the future after the clock was set back. It counts from when it is seen then. */
  #notLaterThanNow(key: string, failedAt: number): number {
    const now = this.clock.now();
    if (failedAt <= now) return failedAt;
    const seen = this.#seen.get(key);
    if (seen?.failedAt === failedAt && seen.seenAt <= now) return seen.seenAt;
    this.#seen.set(key, { failedAt, seenAt: now });
    return now;
  }

  /** Until when the key waits after its last `next`; undefined when it may be tried now. */
  untilSinceUpdate(key: string): number | undefined {
    const entry = this.#valid(key, this.clock.now());
    return entry === undefined ? undefined : this.until(key, entry.updatedAt);
  }

  /** Doubles the delay, because the key is tried again after a failure at `failedAt`, or has failed now. */
  next(key: string, failedAt: number): void {
    const entry = this.#valid(key, failedAt);
    const delayMs =
      entry === undefined ? this.times.firstMs : Math.min(entry.delayMs * 2, this.times.longestMs);
    this.#entries.set(key, { delayMs, updatedAt: this.clock.now() });
  }

  /** What ran for twice the longest delay has recovered. */
  #valid(key: string, failedAt: number): Entry | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined || failedAt - entry.updatedAt > 2 * this.times.longestMs) return undefined;
    return entry;
  }
}
