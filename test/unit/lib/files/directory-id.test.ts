import assert from "node:assert/strict";
import { mkdir, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { directoryId } from "../../../../src/lib/files/directory-id.js";
import { temporaryDirectory } from "../temporary-directory.js";

test("directoryId() is the same by every way to a directory, and another one for another directory", async () => {
  await using at = await temporaryDirectory();
  const [one, two, link] = [join(at.path, "one"), join(at.path, "two"), join(at.path, "link")];
  await mkdir(one);
  await mkdir(two);
  await symlink(one, link);
  const id = await directoryId(one);
  assert.ok(id !== undefined);
  assert.equal(await directoryId(link), id);
  assert.notEqual(await directoryId(two), id);
  await rm(one, { recursive: true });
  assert.equal(await directoryId(one), undefined);
});
