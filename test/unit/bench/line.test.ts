import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { fitLine, isLevel } from "../../../bench/churn-report.js";

const through = (...values: readonly number[]) => fitLine(values.map((y, x) => ({ x, y })));

describe("fitLine() and isLevel()", () => {
  test("points of one line have its slope without an error, and are not level", () => {
    assert.deepEqual(through(1, 3, 5, 7), { slope: 2, standardError: 0 });
    assert.equal(isLevel(through(1, 3, 5, 7)), false);
  });

  test("the standard error is that of the least squares of a textbook", () => {
    const { slope, standardError } = through(1, 2, 4, 5, 8);
    assert.equal(slope.toFixed(4), "1.7000");
    // Residuals 0.4, -0.3, 0, -0.7, 0.6: their squares are 1.1, of 3 degrees of freedom, by 10.
    assert.equal(standardError.toFixed(4), "0.1915");
  });

  test("points that go up and down, and equal ones, are level", () => {
    assert.equal(isLevel(through(5, 4, 6, 4, 5, 6, 5)), true);
    assert.equal(isLevel(through(20, 20, 20, 20)), true);
  });

  test("two points tell no error", () => {
    assert.deepEqual(through(1, 2), { slope: NaN, standardError: NaN });
  });
});
