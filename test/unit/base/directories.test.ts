import assert from "node:assert/strict";
import { mkdir, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { createDirectory, namesIn } from "../../../src/shim/base/directories.js";
import { temporaryDirectory } from "./temporary-directory.js";

describe("createDirectory()", () => {
  test("makes missing parents with the same mode", async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "a", "b");
    await createDirectory(path, 0o700);
    for (const made of [path, join(directory.path, "a")])
      assert.equal((await stat(made)).mode & 0o777, 0o700);
  });

  test("leaves one that exists alone, also behind a link", async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "a");
    await mkdir(path, { mode: 0o750 });
    await symlink("a", join(directory.path, "link"));
    await createDirectory(path, 0o700);
    await createDirectory(join(directory.path, "link"), 0o700);
    assert.equal((await stat(path)).mode & 0o777, 0o750);
  });

  test("fails with the path that cannot be made", async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, "file");
    await writeFile(file, "");
    await symlink("nowhere", join(directory.path, "dangling"));
    await assert.rejects(createDirectory(file, 0o700), { fields: { path: file, errno: "EEXIST" } });
    await assert.rejects(createDirectory(join(file, "x"), 0o700), {
      fields: { path: join(file, "x"), errno: "ENOTDIR" },
    });
    await assert.rejects(createDirectory(join(directory.path, "dangling", "x"), 0o700), {
      name: "ShimError",
    });
    // There mkdir() says ENOENT although the parent exists.
    await assert.rejects(createDirectory("/proc/x", 0o700), { name: "ShimError" });
  });
});

test("namesIn() takes a missing directory for an empty one", async () => {
  await using directory = await temporaryDirectory();
  await writeFile(join(directory.path, "file"), "");
  assert.deepEqual(await namesIn(directory.path), ["file"]);
  assert.deepEqual(await namesIn(join(directory.path, "missing")), []);
});
