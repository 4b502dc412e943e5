import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { sweepBuilds } from "../../../scripts/setup/test-build.mjs";
import { temporaryDirectory } from "../lib/temporary-directory.js";

test("sweepBuilds() removes the builds of killed runs, and nothing else", async () => {
  await using cache = await temporaryDirectory();
  const { pid } = spawnSync(process.execPath, ["--version"]);
  const kept = ["engine", `test-build-${process.pid}-abc`];
  const old = `test-build-${process.pid}-old`;
  for (const name of [...kept, old, `test-build-${pid}-abc`]) mkdirSync(join(cache.path, name));
  // The process has the number of one that was killed the day before.
  utimesSync(join(cache.path, old), 0, 0);
  sweepBuilds(cache.path);
  assert.deepEqual(readdirSync(cache.path).sort(), kept);
});
