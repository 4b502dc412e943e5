import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { didYouMean, editDistance, nearestName } from "../../../src/shim/config/nearest.js";

describe("editDistance()", () => {
  const cases: [string, string, number][] = [
    ["", "", 0],
    ["abc", "abc", 0],
    ["abc", "", 3],
    ["kitten", "sitting", 3],
    ["hepl", "help", 1],
    ["state-dri", "state-dir", 1],
  ];
  for (const [from, to, distance] of cases) {
    test(`of "${from}" and "${to}" is ${String(distance)}`, () => {
      assert.equal(editDistance(from, to), distance);
      assert.equal(editDistance(to, from), distance);
    });
  }
});

describe("nearestName()", () => {
  const known = ["cni-bin-dir", "cni-conf-dir", "network-plugin", "network-plugin-mtu", "v"];

  test("prefers the smaller distance", () => {
    assert.equal(nearestName("cni-bin-dirs", known), "cni-bin-dir");
    assert.equal(nearestName("network-plugn", known), "network-plugin");
  });

  test("finds names that contain the given one", () => {
    assert.equal(nearestName("mtu", known), "network-plugin-mtu");
  });

  test("offers nothing for what resembles no name", () => {
    assert.equal(nearestName("completely-different-thing", known), undefined);
    assert.equal(nearestName("x", []), undefined);
  });
});

test("didYouMean() spells the name as the caller does", () => {
  assert.equal(
    didYouMean("hepl", ["help"], (name) => `--${name}`),
    ': did you mean "--help"?',
  );
  assert.equal(didYouMean("zzzzzzzzzz", ["help"]), "");
});
