import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { DescriptorCache } from "../../../src/shim/stats/descriptor-cache.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

test("DescriptorCache reads whole lines of a list until its limit", async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "list");
  const lines = Array.from({ length: 50_000 }, (_, index) => `line ${index}\n`);
  writeFileSync(path, lines.join(""));
  const files = new DescriptorCache();
  assert.equal(files.readOnce(path), lines.join(""));
  const part = files.readOnce(path, 64 * 1024) ?? "";
  assert.ok(part.length <= 128 * 1024 && part.endsWith("\n"));
  assert.ok(lines.join("").startsWith(part));
});

test("DescriptorCache does not read a list without an end", () => {
  const text = new DescriptorCache().readOnce("/dev/zero");
  assert.equal(text, "");
});
