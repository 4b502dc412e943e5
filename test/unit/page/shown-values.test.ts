import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { htmlText } from "../../../src/shim/page/html.js";
import { shownDuration, shownMessage, shownName, shownTime } from "../../../src/shim/page/shown-values.js";

describe("values of the page", () => {
  test("durations have two units at most, and are never negative", () => {
    const cases: readonly (readonly [ms: number, shown: string])[] = [
      [-5, "0 ms"],
      [0.4, "0 ms"],
      [999.6, "999 ms"],
      [1000, "1.0 s"],
      [59_999, "59.9 s"],
      [60_000, "1 min 0 s"],
      [3_599_999, "59 min 59 s"],
      [3_600_000, "1 h 0 min"],
      [86_399_999, "23 h 59 min"],
      [100 * 86_400_000 + 5 * 3_600_000, "100 d 5 h"],
    ];
    for (const [ms, shown] of cases) assert.equal(shownDuration(ms), shown);
  });

  test("times are in UTC", () => {
    const time = '<time datetime="2026-11-27T12:00:00.000Z">2026-11-27T12:00:00Z</time>';
    assert.equal(htmlText(shownTime(Date.UTC(2026, 10, 27, 12))), time);
  });

  test("names and messages are cut, and messages have one line", () => {
    assert.equal(shownName("x".repeat(100)), "x".repeat(100));
    assert.equal(shownName("x".repeat(101)), `${"x".repeat(100)}…`);
    assert.equal(shownMessage("a\n\t b"), "a b");
    assert.equal(shownMessage("x".repeat(100_000)), `${"x".repeat(500)}…`);
  });
});
