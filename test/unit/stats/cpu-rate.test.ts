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
      title: "is that since the reading before",
      steps: [
        [0, 10_000, 0],
        [1e9, 12_000, 5e8],
        [1e9, 15_000, 0],
      ],
    },
    {
      title: "stays the same for callers within a second, whose readings do not count",
      steps: [
        [1e9, 1000, 1e9],
        [1.9e9, 1500, 1e9],
        [3e9, 2000, 2e9],
      ],
    },
    {
      title: "passes over a counter that went back",
      steps: [
        [5e9, 1000, 5e9],
        [1e9, 2000, 5e9],
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
        steps.map(([, , expected]) => expected),
      );
    });
  }
});
