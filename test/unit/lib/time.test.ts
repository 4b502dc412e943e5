import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import { parseTimestamp, WallClock } from "../../../src/lib/time.js";

describe("parseTimestamp()", () => {
  const table: readonly (readonly [string | undefined, bigint])[] = [
    ["1970-01-01T00:00:00Z", 0n],
    ["1970-01-01T00:00:01.5Z", 1_500_000_000n],
    ["2023-11-14T22:13:20.123456789Z", 1_700_000_000_123_456_789n],
    ["2023-11-14T22:13:20.1234567891Z", 1_700_000_000_123_456_789n],
    ["2023-11-15T00:13:20.000000001+02:00", 1_700_000_000_000_000_001n],
    ["2023-11-14T16:43:20-05:30", 1_700_000_000_000_000_000n],
    ["1969-12-31T23:59:59Z", -1_000_000_000n],
    ["0001-01-01T00:00:00Z", 0n],
    ["0001-01-01T00:00:00.123Z", 0n],
    ["", 0n],
    [undefined, 0n],
    ["yesterday", 0n],
    ["2023-13-45T00:00:00Z", 0n],
    ["2023-11-14T22:13:20", 0n],
    ["2023-11-14 22:13:20Z", 0n],
  ];
  test("reads RFC 3339 with its offset to the nanosecond, and all else as 0", () => {
    for (const [text, expected] of table) assert.equal(parseTimestamp(text), expected, text);
  });
});

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

  test("follows a clock that is set forward and back", (t) => {
    const present = clocks(t, start);
    const clock = new WallClock();
    for (const [byMs, expected] of [
      [3_600_000, "2026-01-02T16:04:05.123"],
      [-7_200_000, "2026-01-02T14:04:05.123"],
    ] as const) {
      present.wall += byMs;
      assert.equal(clock.now().slice(0, 23), expected);
    }
  });

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
