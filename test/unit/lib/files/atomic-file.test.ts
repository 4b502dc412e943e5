import assert from "node:assert/strict";
import { chmod, mkdir, readdir, readFile, stat, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import {
  inDirectory,
  removeFile,
  removeFileSync,
  replaceFileSync,
  sweepTemporaryFiles,
  writeFileAtomically,
} from "../../../../src/lib/files/atomic-file.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { countFlushes } from "./held-flushes.js";
import { temporaryDirectory } from "../temporary-directory.js";
import { fileError } from "../../../../src/lib/files/file-errors.js";

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
    const unflushed = { ...options, flush: "never" } as const;
    assert.equal(await countFlushes(() => writeFileAtomically(path, "newer", unflushed)), 0);
    assert.equal(await readFile(path, "utf8"), "newer");
    assert.deepEqual(await readdir(directory.path), ["file"]);
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

  test("replaces a file or a link by another file, so that a reader keeps the old content", async () => {
    await using directory = await temporaryDirectory();
    const [path, link] = [join(directory.path, "file"), join(directory.path, "link")];
    await writeFile(path, "old");
    await symlink(path, link);
    await writeFileAtomically(link, "new", options);
    assert.deepEqual([await readFile(path, "utf8"), await readFile(link, "utf8")], ["old", "new"]);
    const before = await stat(path);
    await chmod(path, 0o400);
    await writeFileAtomically(path, Buffer.from("new"), options);
    const after = await stat(path);
    assert.notEqual(after.ino, before.ino);
    assert.equal(after.mode & 0o777, 0o600);
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
});

describe("replaceFileSync()", () => {
  test("writes content and mode without a flush, and leaves nothing else behind", async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "file");
    const umask = process.umask(0o077);
    try {
      const flushes = await countFlushes(() => {
        replaceFileSync(path, "new", { ...options, mode: 0o644 });
        return Promise.resolve();
      });
      assert.equal(flushes, 0);
    } finally {
      process.umask(umask);
    }
    assert.equal(await readFile(path, "utf8"), "new");
    assert.equal((await stat(path)).mode & 0o777, 0o644);
    assert.deepEqual(await readdir(directory.path), ["file"]);
  });

  test("replaces a link by a file, and removes the temporary file when the rename fails", async () => {
    await using directory = await temporaryDirectory();
    const [path, link] = [join(directory.path, "file"), join(directory.path, "link")];
    await writeFile(path, "old");
    await symlink(path, link);
    replaceFileSync(link, "new", options);
    assert.deepEqual([await readFile(path, "utf8"), await readFile(link, "utf8")], ["old", "new"]);
    const occupied = join(directory.path, "directory");
    await mkdir(join(occupied, "occupied"), { recursive: true });
    assert.throws(() => replaceFileSync(occupied, "new", options), {
      fields: { path: occupied, errno: "EISDIR" },
    });
    assert.deepEqual((await readdir(directory.path)).sort(), ["directory", "file", "link"]);
  });
});

test("inDirectory() makes a missing directory and repeats the work, once", async () => {
  await using directory = await temporaryDirectory();
  const below = join(directory.path, "made");
  const path = join(below, "file");
  let times = 0;
  await inDirectory(below, 0o700, () => {
    times += 1;
    replaceFileSync(path, "new", options);
  });
  assert.deepEqual(
    [times, await readFile(path, "utf8"), (await stat(below)).mode & 0o777],
    [2, "new", 0o700],
  );
  const inTheWay = inDirectory(path, 0o700, () => replaceFileSync(join(path, "file"), "new", options));
  await assert.rejects(inTheWay, { fields: { path, errno: "EEXIST" } });
});

for (const [name, remove] of Object.entries({ removeFile, removeFileSync })) {
  test(`${name}() tells whether there was a file, and fails for a directory`, async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "file");
    await writeFile(path, "");
    assert.equal(await remove(path), true);
    assert.equal(await remove(path), false);
    assert.equal(await remove(join(directory.path, "missing", "file")), false);
    const { path: other } = directory;
    await assert.rejects(async () => remove(other), { fields: { path: other, errno: "EISDIR" } });
  });
}

test("sweepTemporaryFiles() removes old regular files whose whole name matches, and nothing else", async () => {
  await using directory = await temporaryDirectory();
  const at = (name: string): string => join(directory.path, name);
  const old = new Date(Date.now() - 120_000);
  for (const name of [".123", ".456", ".789", ".12x", "123", ".aged-dir"]) {
    await writeFile(at(name), "");
    await utimes(at(name), old, old);
  }
  await utimes(at(".789"), new Date(), new Date());
  await mkdir(at(".999"));
  await utimes(at(".999"), old, old);
  await symlink("nowhere", at(".777"));
  const sweep = { patterns: [/^\.\d+$/], olderThanMs: 60_000 };
  assert.deepEqual([...sweepTemporaryFiles(directory.path, sweep)].sort(), [".123", ".456"]);
  const left = [".12x", ".777", ".789", ".999", ".aged-dir", "123"];
  assert.deepEqual((await readdir(directory.path)).sort(), left);
  assert.deepEqual(sweepTemporaryFiles(at("missing"), sweep), []);
});

function systemError(code: string, message: string): Error {
  return Object.assign(new Error(`${code}: ${message}`), { code });
}

const cases = [
  ["ENOSPC", "no space left on device, write", "unavailable", "no space left on device"],
  ["EIO", "i/o error, fsync", "unavailable", "i/o error"],
  ["EROFS", "read-only file system, open '/x'", "unavailable", "read-only file system"],
  ["EACCES", "permission denied, open '/x'", "internal", "permission denied"],
] as const;

for (const [code, message, kind, reason] of cases) {
  test(`fileError() makes ${code} ${kind} and says it once`, () => {
    const cause = systemError(code, message);
    const error = fileError("write", "/state/x", cause);
    assert.equal(error.kind, kind);
    assert.equal(error.message, `write "/state/x": ${reason}`);
    assert.deepEqual(error.fields, { path: "/state/x", errno: code });
    assert.equal(error.cause, cause);
  });
}

test("fileError() passes a ShimError on as it is", () => {
  const error = new ShimError("timeout", "too slow");
  assert.equal(fileError("write", "/x", error), error);
});
