import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { sweepBuilds } from "../../../scripts/setup/test-build.mjs";
import { temporaryDirectory } from "../lib/temporary-directory.js";

test("sweepBuilds() removes the builds of killed runs, and nothing else", async () => {
  await using cache = await temporaryDirectory();
  const { pid } = spawnSync(process.execPath, ["--version"]);
  const kept = ["engine", `test-build-${process.pid}-abc`];
  for (const name of [...kept, `test-build-${pid}-abc`]) mkdirSync(join(cache.path, name));
  sweepBuilds(cache.path);
  assert.deepEqual(readdirSync(cache.path).sort(), kept);
});
