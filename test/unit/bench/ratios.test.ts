import assert from "node:assert/strict";
import { test } from "node:test";
import { quantile, rowOf } from "../../../bench/ratios.js";

test("rowOf() divides the first server's median by the others', and spreads the ratios of rounds", () => {
  const { figures } = rowOf({ title: "Status", unit: "ms" }, [
    { server: "dockershim", values: [1, 2, 3, 4, 50] },
    { server: "other", values: [2, 2, 2, 2, 2] },
  ]);
  assert.equal(figures[0]?.ratio, undefined);
  assert.deepEqual(figures[1]?.ratio, { ratio: 1.5, quartiles: [1, 2] });
});

test("rowOf() divides means where the row has those", () => {
  const { figures } = rowOf({ title: "CPU", unit: "ms", center: "mean" }, [
    { server: "dockershim", values: [0, 0, 30] },
    { server: "other", values: [10, 0, 10] },
  ]);
  // 0/10, 30/10; the round with nothing on either side has no ratio.
  assert.deepEqual(figures[1]?.ratio, { ratio: 1.5, quartiles: [0.75, 2.25] });
});

test("rowOf() counts rounds in which one server took nothing, whichever", () => {
  const { figures } = rowOf({ title: "CPU", unit: "ms", center: "mean" }, [
    { server: "dockershim", values: [0, 10, 10, 0, 10] },
    { server: "other", values: [10, 0, 10, 0, 0] },
  ]);
  // 0, infinite, 1, none, infinite.
  assert.deepEqual(figures[1]?.ratio, { ratio: 1.5, quartiles: [0.75, Infinity] });
});

test("rowOf() has no ratio to a server that was not measured", () => {
  const { figures } = rowOf({ title: "CPU", unit: "ms" }, [
    { server: "dockershim", values: [1, 2] },
    { server: "other", values: [] },
  ]);
  assert.ok(Number.isNaN(figures[1]?.ratio?.ratio));
  assert.ok(Number.isNaN(figures[1]?.median));
});

test("quantile() lies between two values in proportion", () => {
  assert.equal(quantile([1, 2, 3, 4], 0.5), 2.5);
  assert.equal(quantile([7], 0.95), 7);
  assert.equal(quantile([0, 10], 0.25), 2.5);
  assert.equal(quantile([1, 2, Infinity], 0.5), 2);
  assert.equal(quantile([1, Infinity, Infinity], 0.75), Infinity);
});
