import assert from "node:assert/strict";
import { test } from "node:test";
import { LruMap } from "../../../src/lib/lru-map.js";

test("set() drops what was not used for longest", () => {
  const map = new LruMap<string, number>(2);
  map.set("a", 1);
  map.set("b", 2);
  assert.equal(map.get("a"), 1);
  map.set("c", 3);
  assert.equal(map.get("b"), undefined);
  assert.deepEqual([map.get("a"), map.get("c"), map.size], [1, 3, 2]);
});

test("set() drops as much as the weight of the entries demands, but never the newest", () => {
  const map = new LruMap<string, string>(5, (value) => value.length);
  map.set("a", "aa");
  map.set("b", "bb");
  map.set("c", "ccc");
  assert.deepEqual([map.get("a"), map.get("b"), map.get("c")], [undefined, "bb", "ccc"]);
  map.set("c", "c");
  map.set("d", "dd");
  assert.equal(map.size, 3);
  map.delete("b");
  map.set("e", "eeeeee");
  assert.deepEqual([map.get("c"), map.get("d"), map.get("e")], [undefined, undefined, "eeeeee"]);
});

test("set() of a known key replaces its value, counts as use and drops nothing", () => {
  const map = new LruMap<string, number>(2);
  map.set("a", 1);
  map.set("b", 2);
  map.set("a", 10);
  assert.equal(map.size, 2);
  map.set("c", 3);
  assert.deepEqual([map.get("a"), map.get("b"), map.get("c")], [10, undefined, 3]);
});
