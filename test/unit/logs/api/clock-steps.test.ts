import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import { ClockSteps } from "../../../../src/shim/logs/api/clock-steps.js";

/** The wall clock is ahead of the monotonic one by `offset`, in milliseconds. */
function clocks(t: TestContext): { offset: number } {
  const present = { offset: 0 };
  t.mock.timers.enable({ apis: ["setInterval"] });
  t.mock.method(performance, "now", () => 1000);
  t.mock.method(Date, "now", () => 1_770_000_000_000 + present.offset);
  return present;
}

describe("ClockSteps", () => {
  test("tells all that listen of a clock that was set back, once, and of no other correction", (t) => {
    const present = clocks(t);
    const steps = new ClockSteps(1000);
    const heard = [0, 0];
    const stop = steps.onSetBack(() => (heard[0]! += 1));
    steps.onSetBack(() => (heard[1]! += 1));
    for (const [offset, expected] of [
      [3_600_000, [0, 0]],
      [3_599_500, [0, 0]],
      [60_000, [1, 1]],
      [60_000, [1, 1]],
    ] as const) {
      present.offset = offset;
      t.mock.timers.tick(1000);
      assert.deepEqual(heard, expected);
    }
    stop();
    present.offset = 0;
    t.mock.timers.tick(1000);
    assert.deepEqual(heard, [1, 2]);
  });

  test("does not look while nobody listens", (t) => {
    const present = clocks(t);
    const steps = new ClockSteps(1000);
    const heard: string[] = [];
    steps.onSetBack(() => heard.push("first"))();
    present.offset = -60_000;
    t.mock.timers.tick(5000);
    steps.onSetBack(() => heard.push("second"));
    t.mock.timers.tick(5000);
    assert.deepEqual(heard, []);
  });
});
