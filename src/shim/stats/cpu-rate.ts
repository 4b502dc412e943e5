/** CPU time per second, from two readings of a counter. */

/** Closer together the granularity of the counters shows; several callers in one interval get the same answer. */
const shortestWindowMs = 1_000;

export class CpuRate {
  #base: { readonly usageNanoseconds: number; readonly atMs: number };
  #nanoCores: number | undefined;

  /** `startedAtMs`: when the counter was 0, on the clock of `next`. */
  constructor(startedAtMs: number) {
    this.#base = { usageNanoseconds: 0, atMs: startedAtMs };
  }

  /**
   * Nanoseconds of CPU time per second, since the latest reading that is at least a second old. The first answer is the
   * average since the start: there is no other one that is true without waiting.
   */
  next(usageNanoseconds: number, atMs: number): number | undefined {
    const { usageNanoseconds: earlier, atMs: since } = this.#base;
    const windowMs = atMs - since;
    if (this.#nanoCores !== undefined && windowMs < shortestWindowMs) return this.#nanoCores;
    // A counter that went back is another cgroup's: what was summed up has changed, or the container was started anew.
    if (windowMs > 0 && usageNanoseconds >= earlier) {
      this.#nanoCores = Math.round(((usageNanoseconds - earlier) / windowMs) * 1000);
    }
    this.#base = { usageNanoseconds, atMs };
    return this.#nanoCores;
  }
}
