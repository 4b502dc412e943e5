import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import { ClockSteps, lacksNewest } from "../../../../src/shim/logs/api/clock-steps.js";
import type { LogStream } from "../../../../src/shim/ports/engine.js";

/** The wall clock is ahead of the monotonic one by `offset`, in milliseconds. */
function clocks(t: TestContext): { offset: number } {
  const present = { offset: 0 };
  t.mock.timers.enable({ apis: ["setInterval"] });
  t.mock.method(performance, "now", () => 1000);
  t.mock.method(Date, "now", () => 1_770_000_000_000 + present.offset);
  return present;
}

describe("ClockSteps", () => {
  test("calls all listeners once when the clock was set back, and for no other correction", (t) => {
    const present = clocks(t);
    const steps = new ClockSteps(1000);
    const calls = [0, 0];
    const stop = steps.onSetBack(() => (calls[0]! += 1));
    steps.onSetBack(() => (calls[1]! += 1));
    for (const [offset, expected] of [
      [3_600_000, [0, 0]],
      [3_599_500, [0, 0]],
      [60_000, [1, 1]],
      [60_000, [1, 1]],
    ] as const) {
      present.offset = offset;
      t.mock.timers.tick(1000);
      assert.deepEqual(calls, expected);
    }
    stop();
    present.offset = 0;
    t.mock.timers.tick(1000);
    assert.deepEqual(calls, [1, 2]);
  });
});

describe("lacksNewest()", () => {
  for (const [seconds, isLacking] of [
    [[], false],
    [[1_770_000_100], false],
    // The clock was set back before the oldest of the newest entries: none of them is out of order.
    [[1_769_999_000, 1_769_999_001], true],
    [[1_770_000_100, 1_769_999_000], true],
  ] as const)
    test(`of entries at ${seconds.join(", ")}, from 1770000000: ${isLacking}`, async () => {
      const entries = seconds.map((second) => new Date(second * 1000).toISOString().replace("Z", "000001Z"));
      const stream: LogStream = {
        readOutput: async (take) => {
          for (const time of entries) await take("stdout", Buffer.from(`${time} text\n`), true);
        },
        close: () => undefined,
      };
      const log = { engine: { containerLogs: () => Promise.resolve(stream) }, containerId: "c", tty: false };
      assert.equal(await lacksNewest(log, 1_770_000_000, new AbortController().signal), isLacking);
    });
});
