import assert from "node:assert/strict";
import { test } from "node:test";
import { isAccustomedEngine } from "../../../src/shim/composition/leftovers.js";
import { temporaryDirectory } from "../base/temporary-directory.js";

test("isAccustomedEngine() remembers the first engine of a state directory and knows no other", async () => {
  await using at = await temporaryDirectory();
  assert.equal(await isAccustomedEngine(at.path, "ONE"), true);
  assert.equal(await isAccustomedEngine(at.path, "ONE"), true);
  assert.equal(await isAccustomedEngine(at.path, "OTHER"), false);
  assert.equal(await isAccustomedEngine(at.path, "ONE"), true);
});
