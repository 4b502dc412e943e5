import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import { WallClock } from "../../../src/shim/lib/time.js";

/** Both clocks of the system, moved by hand. In milliseconds. */
function clocks(t: TestContext, start: number): { wall: number; monotonic: number } {
  const present = { wall: start, monotonic: start - performance.timeOrigin };
  t.mock.method(Date, "now", () => Math.floor(present.wall));
  t.mock.method(performance, "now", () => present.monotonic);
  return present;
}

const start = Date.parse("2026-01-02T15:04:05.123Z");

describe("WallClock", () => {
  test("has microseconds", (t) => {
    const present = clocks(t, start + 0.456);
    const clock = new WallClock();
    assert.match(clock.now(), /^2026-01-02T15:04:05\.12345[56]000Z$/);
    present.wall += 0.3;
    present.monotonic += 0.3;
    assert.match(clock.now(), /^2026-01-02T15:04:05\.12375[56]000Z$/);
  });

  for (const [name, byMs, expected] of [
    ["forward", 3_600_000, "2026-01-02T16:04:05.123"],
    ["back", -3_600_000, "2026-01-02T14:04:05.123"],
  ] as const) {
    test(`follows a clock that is set ${name}`, (t) => {
      const present = clocks(t, start);
      const clock = new WallClock();
      assert.match(clock.now(), /^2026-01-02T15:04:05\.123/);
      present.wall += byMs;
      assert.equal(clock.now().slice(0, 23), expected);
    });
  }

  test("does not go back while the monotonic clock is a little ahead or behind", (t) => {
    for (const skewMs of [-0.9, 0.9]) {
      const present = clocks(t, start);
      present.monotonic += skewMs;
      const clock = new WallClock();
      let before = clock.now();
      for (let step = 0; step < 5000; step += 1) {
        present.wall += 0.01;
        present.monotonic += 0.01;
        const now = clock.now();
        assert.ok(now >= before, `${now} after ${before}`);
        assert.equal(now.slice(0, 23), new Date(present.wall).toISOString().slice(0, 23));
        before = now;
      }
      t.mock.restoreAll();
    }
  });
});
