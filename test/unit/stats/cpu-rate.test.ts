import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { CpuRate } from "../../../src/shim/stats/cpu-rate.js";

describe("CpuRate.next()", () => {
  const cases: readonly {
    readonly title: string;
    /** Nanoseconds of CPU time, milliseconds, expected nanoseconds per second. */
    readonly steps: readonly (readonly [number, number, number | undefined])[];
  }[] = [
    { title: "is the average since the start at first", steps: [[5e8, 2000, 2.5e8]] },
    {
      title: "is that since the reading before for a caller that comes every ten seconds, or less often",
      steps: [
        [0, 10_000, 0],
        [5e9, 20_000, 5e8],
        [5e9, 30_000, 0],
        [11e9, 90_000, 1e8],
      ],
    },
    {
      title: "has a window of ten seconds and more, also when another caller has just read",
      steps: [
        [10e9, 10_000, 1e9],
        // It worked for a second in between, and not since the last reading.
        [11e9, 20_000, 1e8],
        [11e9, 21_500, (1e9 / 11_500) * 1000],
        [11e9, 29_000, (1e9 / 19_000) * 1000],
        [11e9, 30_000, 0],
      ],
    },
    {
      title: "is that of this moment as soon as two readings of a container are there that has run for long",
      steps: [
        [36e9, 3_600_000, 1e7],
        [36.5e9, 3_600_500, 1e7],
        [38e9, 3_602_000, 1e9],
      ],
    },
    {
      title: "is the average since the start in its first seconds",
      steps: [
        [1e9, 1000, 1e9],
        [1.5e9, 1500, 1e9],
        [3e9, 6000, 5e8],
      ],
    },
    {
      title: "passes over a counter that went back",
      steps: [
        [5e9, 1000, 5e9],
        [1e9, 2000, 5e9],
        [1e9, 2500, 5e9],
        [2e9, 3000, 1e9],
      ],
    },
    { title: "is unknown at the very moment of the start", steps: [[1000, 0, undefined]] },
  ];
  for (const { title, steps } of cases) {
    test(title, () => {
      const rate = new CpuRate(0);
      assert.deepEqual(
        steps.map(([usage, atMs]) => rate.next(usage, atMs)),
        steps.map(([, , expected]) => expected && Math.round(expected)),
      );
    });
  }
});
