import assert from "node:assert/strict";
import { test } from "node:test";
import { burstRows } from "../../../bench/lifecycle.js";

test("bursts have the median of their time and the means of CPU times", () => {
  assert.deepEqual(
    burstRows([], "started").map(({ title, center }) => [title, center]),
    [
      ["20 pods started, 10 at a time", "median"],
      ["20 pods started, CPU of the server", "mean"],
      ["20 pods started, CPU of the engine", "mean"],
    ],
  );
});
