import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { CpuRate } from "../../../src/shim/stats/cpu-rate.js";

describe("CpuRate.next()", () => {
  /** Nanoseconds of CPU time, milliseconds, expected nanoseconds per second. */
  type Step = readonly [usage: number, atMs: number, expected: number | undefined];
  const another: readonly Step[] = [
    [10e9, 10_000, 1e9],
    // It worked for a second in between, and not since the last reading.
    [11e9, 20_000, 1e8],
    [11e9, 21_500, (1e9 / 11_500) * 1000],
    [11e9, 29_000, (1e9 / 19_000) * 1000],
    [11e9, 30_000, 0],
  ];
  for (const [title, steps] of Object.entries<readonly Step[]>({
    "is the average since the start at first": [[5e8, 2000, 2.5e8]],
    "is that since the reading before for a caller that comes every ten seconds, or less often": [
      [0, 10_000, 0],
      [5e9, 20_000, 5e8],
      [5e9, 30_000, 0],
      [11e9, 90_000, 1e8],
    ],
    "has a window of ten seconds and more, also when another caller has just read": another,
    "is that of this moment as soon as two readings of a container are there that has run for long": [
      [36e9, 3_600_000, 1e7],
      [36.5e9, 3_600_500, 1e7],
      [38e9, 3_602_000, 1e9],
    ],
    "is the average since the start in its first seconds": [
      [1e9, 1000, 1e9],
      [1.5e9, 1500, 1e9],
      [3e9, 6000, 5e8],
    ],
    "passes over a counter that went back": [
      [5e9, 1000, 5e9],
      [1e9, 2000, 5e9],
      [1e9, 2500, 5e9],
      [2e9, 3000, 1e9],
    ],
    "is unknown at the very moment of the start": [[1000, 0, undefined]],
  })) {
    test(title, () => {
      const rate = new CpuRate(0);
      const found = steps.map(([usage, atMs]) => rate.next(usage, atMs));
      assert.deepEqual(
        found,
        steps.map(([, , expected]) => expected && Math.round(expected)),
      );
    });
  }
});
