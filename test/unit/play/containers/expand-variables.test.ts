import assert from "node:assert/strict";
import { test } from "node:test";
import { expandEnvironment, expandVariables } from "../../../../src/play/containers/expand-variables.js";

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

for (const [text, expected] of cases) {
  test(`expandVariables() turns ${JSON.stringify(text)} into ${JSON.stringify(expected)}`, () => {
    assert.equal(expandVariables(text, variables), expected);
  });
}

test("expandEnvironment() lets a value refer to the names before it, not after", () => {
  const environment = expandEnvironment([
    { name: "LATE", value: "$(HOST)" },
    { name: "HOST", value: "db" },
    { name: "URL", value: "http://$(HOST)/" },
    { name: "NONE" },
  ]);
  assert.deepEqual(
    [...environment],
    [
      ["LATE", "$(HOST)"],
      ["HOST", "db"],
      ["URL", "http://db/"],
      ["NONE", ""],
    ],
  );
});

test("expandEnvironment() takes the last entry of a name", () => {
  const entries = [
    { name: "A", value: "1" },
    { name: "A", value: "$(A)2" },
  ];
  assert.deepEqual([...expandEnvironment(entries)], [["A", "12"]]);
});
