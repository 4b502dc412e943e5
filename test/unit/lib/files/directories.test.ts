import assert from "node:assert/strict";
import { mkdir, rename, rm, stat, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { createDirectory, KnownNames, namesIn } from "../../../../src/lib/files/directories.js";
import { temporaryDirectory } from "../temporary-directory.js";
import { directoryId } from "../../../../src/lib/files/directory-id.js";

describe("createDirectory()", () => {
  test("makes missing parents with the same mode, and leaves what exists alone, also behind a link", async () => {
    await using directory = await temporaryDirectory();
    const [parent, path] = [join(directory.path, "a"), join(directory.path, "a", "b")];
    await createDirectory(path, 0o700);
    for (const made of [path, parent]) assert.equal((await stat(made)).mode & 0o777, 0o700);
    await symlink("a", join(directory.path, "link"));
    for (const there of [path, join(directory.path, "link")]) await createDirectory(there, 0o750);
    assert.equal((await stat(path)).mode & 0o777, 0o700);
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

describe("KnownNames.read()", () => {
  /**
   * With a clock that the test sets: by default so late that what the directory says of its changes counts.
   */
  async function setUp() {
    const directory = await temporaryDirectory();
    const path = join(directory.path, "names");
    await mkdir(path);
    const clock = { nowMs: Date.now() + 60_000 };
    const names = new KnownNames(path, () => clock.nowMs);
    const probe = join(directory.path, "probe");
    return {
      path,
      clock,
      names,
      /**
       * Returns when a change would get another time than the latest one did: file systems count in ticks.
       */
      tick: async (): Promise<void> => {
        const { ctimeNs } = await stat(path, { bigint: true });
        do await writeFile(probe, "x");
        while ((await stat(probe, { bigint: true })).mtimeNs <= ctimeNs);
      },
      [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
    };
  }

  test("reads once while nothing changes, and sees what others make, rename and remove", async () => {
    await using bed = await setUp();
    const { path, names, tick } = bed;
    await writeFile(join(path, "a"), "");
    const first = await names.read();
    assert.deepEqual(first, ["a"]);
    assert.equal(await names.read(), first);
    await tick();
    await writeFile(join(path, "a"), "other content");
    assert.equal(await names.read(), first, "only names count");
    await writeFile(join(path, "b"), "");
    assert.deepEqual([...(await names.read())].sort(), ["a", "b"]);
    await tick();
    await rename(join(path, "b"), join(path, "c"));
    assert.deepEqual([...(await names.read())].sort(), ["a", "c"]);
    await tick();
    await rm(join(path, "a"));
    assert.deepEqual(await names.read(), ["c"]);
  });

  test("believes no directory that was changed a moment ago, or in the future", async () => {
    await using bed = await setUp();
    const { path, names, clock } = bed;
    await writeFile(join(path, "a"), "");
    for (const nowMs of [Date.now(), Date.now() - 3_600_000]) {
      clock.nowMs = nowMs;
      const first = await names.read();
      assert.deepEqual(first, ["a"]);
      assert.notEqual(await names.read(), first);
    }
  });

  test("sees a change after which the time of the directory was set back", async () => {
    await using bed = await setUp();
    const { path, names, tick } = bed;
    const { atime, mtime } = await stat(path);
    assert.deepEqual(await names.read(), []);
    await tick();
    await writeFile(join(path, "a"), "");
    await utimes(path, atime, mtime);
    assert.deepEqual(await names.read(), ["a"]);
  });

  test("a directory that goes and comes is empty meanwhile", async () => {
    await using bed = await setUp();
    const path = join(bed.path, "sandbox");
    const names = new KnownNames(path, () => bed.clock.nowMs);
    assert.deepEqual(await names.read(), []);
    await mkdir(path);
    await writeFile(join(path, "a"), "");
    assert.deepEqual(await names.read(), ["a"]);
    await rm(path, { recursive: true });
    assert.deepEqual(await names.read(), []);
  });
});

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
