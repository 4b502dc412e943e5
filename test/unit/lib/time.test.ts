import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { nowNanoseconds, parseTimestamp } from "../../../src/shim/lib/time.js";

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
  for (const [text, expected] of table) {
    test(`reads ${JSON.stringify(text)} as ${String(expected)}`, () => {
      assert.equal(parseTimestamp(text), expected);
    });
  }

  test("keeps every nanosecond of any present-day time", () => {
    fc.assert(
      fc.property(fc.bigInt(0n, 4_000_000_000n), fc.bigInt(0n, 999_999_999n), (seconds, nanoseconds) => {
        const whole = new Date(Number(seconds) * 1000).toISOString().slice(0, 19);
        const text = `${whole}.${String(nanoseconds).padStart(9, "0")}Z`;
        assert.equal(parseTimestamp(text), seconds * 1_000_000_000n + nanoseconds);
      }),
    );
  });
});

test("nowNanoseconds() is the present", () => {
  const before = BigInt(Date.now());
  const now = nowNanoseconds();
  assert.ok(now >= before * 1_000_000n && now <= BigInt(Date.now()) * 1_000_000n);
});
