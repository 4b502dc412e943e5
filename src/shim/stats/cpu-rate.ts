/** CPU time per second, from two readings of a counter. */

/** Length of the window that ends now. In a shorter one a container with bursts is busy or idle by chance. */
const windowMs = { shortest: 10_000, longest: 30_000 };
/** In a shorter time the granularity of the counters shows. */
const leastMs = 1_000;

interface Reading {
  readonly usageNanoseconds: number;
  readonly atMs: number;
}

export class CpuRate {
  /** Two readings that windows begin with, at least the shortest one apart. */
  #older: Reading;
  #newer: Reading;
  #latestNanoseconds = 0;
  #nanoCores: number | undefined;

  /** `startedAtMs`: when the counter was 0, on the clock of `next`. */
  constructor(startedAtMs: number) {
    this.#older = this.#newer = { usageNanoseconds: 0, atMs: startedAtMs };
  }

  /**
   * Nanoseconds of CPU time per second, since a reading that is 10 to 30 s old, so that several callers do
   * not shorten each other's windows; where there is none since the latest one before. The first answer is
   * the average since the start: another one would need a wait.
   */
  next(usageNanoseconds: number, atMs: number): number | undefined {
    const base = this.#base(atMs);
    // A counter that went back belongs to another cgroup: a part of the sum has ended, or the container was
    // started anew.
    const isOther = usageNanoseconds < this.#latestNanoseconds;
    this.#latestNanoseconds = usageNanoseconds;
    if (isOther) {
      this.#older = this.#newer = { usageNanoseconds, atMs };
      return this.#nanoCores;
    }
    if (atMs - this.#newer.atMs >= windowMs.shortest) {
      this.#older = this.#newer;
      this.#newer = { usageNanoseconds, atMs };
    }
    const sinceMs = atMs - base.atMs;
    if (sinceMs >= leastMs || (this.#nanoCores === undefined && sinceMs > 0))
      this.#nanoCores = Math.round(((usageNanoseconds - base.usageNanoseconds) / sinceMs) * 1000);
    return this.#nanoCores;
  }

  #base(atMs: number): Reading {
    if (atMs - this.#newer.atMs >= windowMs.shortest) return this.#newer;
    return atMs - this.#older.atMs <= windowMs.longest ? this.#older : this.#newer;
  }
}
