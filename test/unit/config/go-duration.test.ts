import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { formatGoDuration, parseGoDuration } from "../../../src/shim/config/go-duration.js";

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
  test("reads a sum of numbers with units to the millisecond", () => {
    for (const [text, milliseconds] of good) assert.equal(parseGoDuration(text), milliseconds, text);
  });

  const bad: readonly (readonly [RegExp, readonly string[]])[] = [
    [/duration/, ["", "1x", "s", "1m 30s", " 1s", "1s!", "1h30", "1d", "1e3s"]],
    [/needs a unit/, ["1.5"]],
    [/needs a unit, as in "5s"/, ["5"]],
    [/negative/, ["-1s"]],
    [/less than 596 hours/, ["597h", "9999999999999999h"]],
  ];
  for (const [message, texts] of bad) {
    test(`refuses ${texts.map((text) => JSON.stringify(text)).join(", ")}`, () => {
      for (const text of texts) assert.throws(() => parseGoDuration(text), { kind: "invalid", message });
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
  test("writes what parseGoDuration() reads", () => {
    for (const [milliseconds, text] of cases) {
      assert.equal(formatGoDuration(milliseconds), text);
      assert.equal(parseGoDuration(text), milliseconds);
    }
  });
});
