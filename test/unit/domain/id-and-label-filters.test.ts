import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { matchesId, matchesLabels } from "../../../src/domain/id-and-label-filters.js";

describe("matchesId()", () => {
  const table = [
    ["abc", "", true],
    ["abc", "abc", true],
    ["abc", "ab", true],
    ["abc", "abcd", false],
    ["abc", "bc", false],
  ] as const;
  for (const [id, filter, expected] of table) {
    test(`${id} ${expected ? "matches" : "does not match"} "${filter}"`, () => {
      assert.equal(matchesId(id, filter), expected);
    });
  }
});

describe("matchesLabels()", () => {
  const labels = { app: "web", tier: "front", "annotation.note": "x", empty: "" };
  const table: readonly (readonly [string, Record<string, string>, boolean])[] = [
    ["an empty selector matches", {}, true],
    ["an equal value matches", { app: "web" }, true],
    ["all values must match", { app: "web", tier: "back" }, false],
    ["an absent key does not match", { zone: "a" }, false],
    ["an absent key is not an empty value", { zone: "" }, false],
    ["an empty value matches an empty value", { empty: "" }, true],
    ["annotations match by their prefixed key", { "annotation.note": "x" }, true],
    ["inherited properties are no labels", { toString: "x" }, false],
  ];
  for (const [name, selector, expected] of table) {
    test(name, () => {
      assert.equal(matchesLabels(labels, selector), expected);
    });
  }
});
