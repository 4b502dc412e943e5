import assert from "node:assert/strict";
import { chmod, mkdir, readdir, readFile, stat, symlink, utimes, writeFile } from "node:fs/promises";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import {
  removeFile,
  sweepTemporaryFiles,
  writeFileAtomically,
} from "../../../../src/lib/files/atomic-file.js";
import { Flusher } from "../../../../src/lib/files/flusher.js";
import { silentLogger } from "../../../../src/lib/log.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { countFlushes } from "./count-flushes.js";
import { temporaryDirectory } from "../temporary-directory.js";

const options = { mode: 0o600, temporaryPrefix: ".tmp-" };

describe("writeFileAtomically()", () => {
  test("writes content and mode, and leaves nothing else behind", async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "file");
    const umask = process.umask(0o077);
    try {
      await writeFileAtomically(path, "new", { ...options, mode: 0o644 });
    } finally {
      process.umask(umask);
    }
    assert.equal(await readFile(path, "utf8"), "new");
    assert.equal((await stat(path)).mode & 0o777, 0o644);
    assert.deepEqual(await readdir(directory.path), ["file"]);
  });

  test("flushes file and directory before it returns, unless it is told otherwise", async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "file");
    assert.equal(await countFlushes(() => writeFileAtomically(path, "new", options)), 2);
    assert.equal(
      await countFlushes(() => writeFileAtomically(path, "newer", { ...options, flush: "never" })),
      0,
    );
    assert.equal(await readFile(path, "utf8"), "newer");
    assert.deepEqual(await readdir(directory.path), ["file"]);
  });

  test("leaves the flush to the flusher, after the rename", async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "file");
    const flusher = new Flusher(silentLogger());
    const flushes = await countFlushes(async () => {
      const contents: string[] = [];
      flusher.written = (written) => contents.push(readFileSync(written, "utf8"));
      await writeFileAtomically(path, "new", { ...options, flush: { later: flusher, isNew: true } });
      assert.deepEqual(contents, ["new"]);
    });
    assert.equal(flushes, 0);
  });

  test("makes a missing directory when it is told its mode, and looks for it only then", async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "made", "file");
    await writeFileAtomically(path, "new", { ...options, directoryMode: 0o700 });
    assert.equal(await readFile(path, "utf8"), "new");
    assert.equal((await stat(join(directory.path, "made"))).mode & 0o777, 0o700);
    const below = join(path, "file");
    await assert.rejects(writeFileAtomically(below, "new", { ...options, directoryMode: 0o700 }), {
      fields: { path, errno: "EEXIST" },
    });
  });

  test("replaces the file by another one, so that a reader keeps the old content", async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "file");
    await writeFile(path, "old");
    const before = await stat(path);
    await chmod(path, 0o400);
    await writeFileAtomically(path, Buffer.from("new"), options);
    const after = await stat(path);
    assert.notEqual(after.ino, before.ino);
    assert.equal(after.mode & 0o777, 0o600);
    assert.equal(await readFile(path, "utf8"), "new");
  });

  test("replaces a symbolic link instead of writing through it", async () => {
    await using directory = await temporaryDirectory();
    const target = join(directory.path, "target");
    const path = join(directory.path, "file");
    await writeFile(target, "untouched");
    await symlink(target, path);
    await writeFileAtomically(path, "new", options);
    assert.equal(await readFile(target, "utf8"), "untouched");
    assert.equal(await readFile(path, "utf8"), "new");
  });

  test("removes the temporary file and names the path when the rename fails", async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "file");
    await mkdir(join(path, "occupied"), { recursive: true });
    await assert.rejects(writeFileAtomically(path, "new", options), (error) => {
      assert.ok(error instanceof ShimError);
      assert.equal(error.kind, "internal");
      assert.equal(error.fields["path"], path);
      assert.ok(error.message.startsWith(`write ${JSON.stringify(path)}: `), error.message);
      return true;
    });
    assert.deepEqual(await readdir(directory.path), ["file"]);
  });

  test("fails when the directory is missing", async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "missing", "file");
    await assert.rejects(writeFileAtomically(path, "new", options), {
      message: /no such file or directory$/,
    });
  });
});

describe("removeFile()", () => {
  test("tells whether there was a file", async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "file");
    await writeFile(path, "");
    assert.equal(await removeFile(path), true);
    assert.equal(await removeFile(path), false);
    assert.equal(await removeFile(join(directory.path, "missing", "file")), false);
  });

  test("fails with the path when it is a directory", async () => {
    await using directory = await temporaryDirectory();
    await assert.rejects(removeFile(directory.path), {
      fields: { path: directory.path, errno: "EISDIR" },
    });
  });
});

describe("sweepTemporaryFiles()", () => {
  test("removes old regular files whose whole name matches, and nothing else", async () => {
    await using directory = await temporaryDirectory();
    const old = new Date(Date.now() - 120_000);
    for (const name of [".123", ".456", ".789", ".12x", "123", ".aged-dir"]) {
      await writeFile(join(directory.path, name), "");
      await utimes(join(directory.path, name), old, old);
    }
    await utimes(join(directory.path, ".789"), new Date(), new Date());
    await mkdir(join(directory.path, ".999"));
    await utimes(join(directory.path, ".999"), old, old);
    await symlink("nowhere", join(directory.path, ".777"));
    const sweep = { patterns: [/^\.\d+$/], olderThanMs: 60_000 };
    assert.deepEqual([...(await sweepTemporaryFiles(directory.path, sweep))].sort(), [".123", ".456"]);
    assert.deepEqual((await readdir(directory.path)).sort(), [
      ".12x",
      ".777",
      ".789",
      ".999",
      ".aged-dir",
      "123",
    ]);
  });

  test("takes a missing directory for an empty one", async () => {
    await using directory = await temporaryDirectory();
    const removed = await sweepTemporaryFiles(join(directory.path, "missing"), {
      patterns: [/./],
      olderThanMs: 0,
    });
    assert.deepEqual(removed, []);
  });
});
