import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { isKind } from "../../../src/lib/errors.js";
import { findPackageDirectory } from "../../../src/lib/package-directory.js";
import { temporaryDirectory } from "./temporary-directory.js";

test("findPackageDirectory() finds it from the places of sources and of the files of a build", async () => {
  await using directory = await temporaryDirectory();
  const root = directory.path;
  await writeFile(join(root, "package.json"), "{}");
  for (const path of ["src/lib", "dist/chunks", "dist"]) {
    await mkdir(join(root, path), { recursive: true });
    assert.equal(findPackageDirectory(join(root, path)), root);
  }
});

test("findPackageDirectory() fails when no directory up to the root has a package.json", () => {
  assert.throws(
    () => findPackageDirectory("/proc/self"),
    (error) => isKind(error, "internal"),
  );
});
