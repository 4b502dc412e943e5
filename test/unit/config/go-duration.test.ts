import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { formatGoDuration, parseGoDuration } from "../../../src/shim/config/go-duration.js";
import { isKind } from "../../../src/lib/errors.js";

describe("parseGoDuration()", () => {
  const good: [string, number][] = [
    ["0", 0],
    ["0s", 0],
    ["1m0s", 60_000],
    ["2m0s", 120_000],
    ["300ms", 300],
    ["1h30m", 5_400_000],
    ["4h0m0s", 14_400_000],
    ["1.5s", 1500],
    [".5s", 500],
    ["1.s", 1000],
    ["+10s", 10_000],
    ["0.1s", 100],
    ["1us", 1],
    ["1µs", 1],
    ["1500µs", 2],
    ["1s1m", 61_000],
  ];
  for (const [text, milliseconds] of good) {
    test(`reads "${text}"`, () => {
      assert.equal(parseGoDuration(text), milliseconds);
    });
  }

  const bad: [string, RegExp][] = [
    ["", /duration/],
    ["5", /needs a unit, as in "5s"/],
    ["1.5", /needs a unit/],
    ["-1s", /negative/],
    ["1x", /duration/],
    ["s", /duration/],
    ["1m 30s", /duration/],
    [" 1s", /duration/],
    ["1s!", /duration/],
    ["1h30", /duration/],
    ["1d", /duration/],
    ["1e3s", /duration/],
    ["597h", /less than 596 hours/],
    ["9999999999999999h", /less than 596 hours/],
  ];
  for (const [text, reason] of bad) {
    test(`refuses "${text}"`, () => {
      assert.throws(
        () => parseGoDuration(text),
        (error) => isKind(error, "invalid") && reason.test(error.message),
      );
    });
  }
});

describe("formatGoDuration()", () => {
  const cases: [number, string][] = [
    [0, "0s"],
    [1, "1ms"],
    [1000, "1s"],
    [1500, "1.5s"],
    [60_000, "1m0s"],
    [119_000, "1m59s"],
    [3_600_000, "1h0m0s"],
    [14_400_001, "4h0m0.001s"],
  ];
  for (const [milliseconds, text] of cases) {
    test(`writes ${milliseconds} ms as ${text} and reads it back`, () => {
      assert.equal(formatGoDuration(milliseconds), text);
      assert.equal(parseGoDuration(text), milliseconds);
    });
  }
});
