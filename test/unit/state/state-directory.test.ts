import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { chmod, mkdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { claimStateDirectory, openStateDirectory } from "../../../src/shim/state/state-directory.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

test("openStateDirectory() closes the directory to others, also one that it did not make", async () => {
  await using at = await temporaryDirectory();
  const made = join(at.path, "made");
  const found = join(at.path, "found");
  await mkdir(found);
  await chmod(found, 0o755);
  for (const name of ["sandbox", "lost+found", ".setup.json.123"]) await mkdir(join(found, name));
  for (const root of [made, found]) {
    await openStateDirectory(root);
    assert.equal((await stat(root)).mode & 0o777, 0o700, root);
  }
});

test("openStateDirectory() leaves a directory alone in which others have files, too", async () => {
  await using at = await temporaryDirectory();
  await mkdir(join(at.path, "sandbox"));
  await mkdir(join(at.path, "of-another-program"));
  await chmod(at.path, 0o1777);
  await openStateDirectory(at.path);
  assert.equal((await stat(at.path)).mode & 0o7777, 0o1777);
});

test("claimStateDirectory() removes what a killed writer left, only ours, and only once it has the claim", async () => {
  await using at = await temporaryDirectory();
  const temporary = join(at.path, ".dockershim-0123456789abcdef");
  const others = [".dockershim-notes", ".setup.json.123", "engine-id"];
  const claim = await claimStateDirectory(at.path);
  for (const name of others) await writeFile(join(at.path, name), "x");
  await writeFile(temporary, "engi");
  await assert.rejects(claimStateDirectory(at.path), /another dockershim runs/);
  assert.ok(existsSync(temporary));
  await claim.release();
  const next = await claimStateDirectory(at.path);
  assert.equal(existsSync(temporary), false);
  for (const name of others) assert.ok(existsSync(join(at.path, name)), name);
  await next.release();
});
