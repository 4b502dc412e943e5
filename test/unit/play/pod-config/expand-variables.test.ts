import assert from "node:assert/strict";
import { test } from "node:test";
import { expandVariables } from "../../../../src/play/pod-config/expand-variables.js";

const variables = new Map([
  ["A", "a"],
  ["B", "$(A)"],
  ["EMPTY", ""],
]);

/** The kubelet's rules, case by case. */
const cases: readonly (readonly [string, string])[] = [
  ["", ""],
  ["plain", "plain"],
  ["$(A)", "a"],
  ["x$(A)y$(A)", "xaya"],
  ["$(EMPTY)", ""],
  ["$(MISSING)", "$(MISSING)"],
  ["$$(A)", "$(A)"],
  ["$$$(A)", "$a"],
  ["$A ${A}", "$A ${A}"],
  ["$(A", "$(A"],
  ["$(A$(A)", "$(A$(A)"],
  ["$()", "$()"],
  ["cost: 5$", "cost: 5$"],
  ["$$", "$"],
  ["$(B)", "$(A)"],
  ["$((1+2))", "$((1+2))"],
  ["$é", "$é"],
];

for (const [text, expected] of cases)
  test(`expandVariables() turns ${JSON.stringify(text)} into ${JSON.stringify(expected)}`, () =>
    assert.equal(expandVariables(text, variables), expected));
