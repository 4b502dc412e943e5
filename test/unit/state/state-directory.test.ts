import assert from "node:assert/strict";
import { chmod, mkdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { openStateDirectory } from "../../../src/shim/state/state-directory.js";
import { temporaryDirectory } from "../base/temporary-directory.js";

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
  await mkdir(join(at.path, "somebody-elses"));
  await chmod(at.path, 0o1777);
  await openStateDirectory(at.path);
  assert.equal((await stat(at.path)).mode & 0o7777, 0o1777);
});
