import assert from "node:assert/strict";
import { mkdir, readFile, readdir, readlink, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { hostFileCalls } from "../../../../src/play/node/file-calls.js";
import { writeObjectFiles } from "../../../../src/play/node/atomic-writer.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

async function inDirectory(work: (directory: string) => Promise<void>): Promise<void> {
  await using directory = await temporaryDirectory();
  await work(directory.path);
}

const files = (texts: Readonly<Record<string, string>>, mode = 0o644) =>
  new Map(Object.entries(texts).map(([path, text]) => [path, { content: Buffer.from(text), mode }]));

const write = (
  path: string,
  wanted: ReturnType<typeof files>,
  group?: number,
  mountPoints: readonly string[] = [],
) => writeObjectFiles({ path, files: wanted, group, mountPoints }, hostFileCalls);

test("writeObjectFiles() shows files by links to ..data", () =>
  inDirectory(async (directory) => {
    await write(directory, files({ key: "1", "a/b/c": "2", "a/d": "3" }));
    assert.equal(await readlink(join(directory, "key")), "..data/key");
    assert.equal(await readlink(join(directory, "a")), "..data/a");
    assert.match(await readlink(join(directory, "..data")), /^\.\.\d{4}(_\d\d){5}\.\w+$/);
    assert.equal(await readFile(join(directory, "a", "b", "c"), "utf8"), "2");
    assert.equal((await stat(join(directory, "a", "d"))).mode & 0o7777, 0o644);
  }));

test("writeObjectFiles() replaces all files by one rename, and removes what is gone", () =>
  inDirectory(async (directory) => {
    await write(directory, files({ key: "1", gone: "1" }));
    const old = await readlink(join(directory, "..data"));
    await write(directory, files({ key: "2", new: "2" }));
    const data = await readlink(join(directory, "..data"));
    assert.notEqual(data, old);
    assert.deepEqual((await readdir(directory)).sort(), ["..data", data, "key", "new"].sort());
    assert.equal(await readFile(join(directory, "key"), "utf8"), "2");
  }));

test("writeObjectFiles() leaves equal files as they are", () =>
  inDirectory(async (directory) => {
    await write(directory, files({ "a/b": "1" }));
    const data = await readlink(join(directory, "..data"));
    await write(directory, files({ "a/b": "1" }));
    assert.equal(await readlink(join(directory, "..data")), data);
    await write(directory, files({ "a/b": "1" }, 0o400));
    assert.notEqual(await readlink(join(directory, "..data")), data);
  }));

test("writeObjectFiles() repairs what a kill left", () =>
  inDirectory(async (directory) => {
    await mkdir(join(directory, "..2026_01_01_00_00_00.killed"));
    await writeFile(join(directory, "..data_tmp"), "");
    await write(directory, files({ key: "1" }));
    const data = await readlink(join(directory, "..data"));
    assert.deepEqual((await readdir(directory)).sort(), ["..data", data, "key"].sort());
  }));

test("writeObjectFiles() does not follow a ..data that a container has turned elsewhere", () =>
  inDirectory(async (directory) => {
    const [volume, outside] = [join(directory, "v"), join(directory, "outside")];
    for (const path of [volume, outside]) await mkdir(path);
    await writeFile(join(outside, "key"), "1");
    await symlink("../outside", join(volume, "..data"));
    await write(volume, files({ key: "1" }));
    assert.match(await readlink(join(volume, "..data")), /^\.\.2/);
    assert.deepEqual(await readdir(outside), ["key"]);
  }));

test("writeObjectFiles() lets the fsGroup read secret files", () =>
  inDirectory(async (directory) => {
    const group = process.getgid?.() ?? 0;
    await write(directory, files({ "a/key": "1" }, 0o400), group);
    const { mode, gid } = await stat(join(directory, "a", "key"));
    assert.deepEqual([mode & 0o7777, gid], [0o440, group]);
    assert.equal((await stat(join(directory, "a"))).mode & 0o7777, 0o2755);
    const data = await readlink(join(directory, "..data"));
    await write(directory, files({ "a/key": "1" }, 0o400), group);
    assert.equal(await readlink(join(directory, "..data")), data);
  }));

test("writeObjectFiles() makes directories for mounts, which stay when files change", () =>
  inDirectory(async (directory) => {
    const points = ["b/c", "a/deep/er", "key"];
    const isDirectory = async (path: string) => (await stat(join(directory, path))).isDirectory();
    await write(directory, files({ key: "1", "a/x": "1" }), undefined, points);
    const { ino } = await stat(join(directory, "b"));
    await write(directory, files({ key: "2", "a/x": "2" }), undefined, points);
    assert.deepEqual([await isDirectory("b/c"), await isDirectory("a/deep/er")], [true, true]);
    assert.equal((await stat(join(directory, "b"))).ino, ino);
    assert.equal(await readFile(join(directory, "key"), "utf8"), "2");
    await write(directory, files({ key: "2" }), undefined, points);
    assert.equal(await isDirectory("a/deep/er"), true);
    await write(directory, files({ key: "2" }));
    const data = await readlink(join(directory, "..data"));
    assert.deepEqual((await readdir(directory)).sort(), ["..data", data, "key"].sort());
  }));

test("writeObjectFiles() makes no directory outside of the volume", () =>
  inDirectory(async (directory) => {
    const [volume, outside] = [join(directory, "v"), join(directory, "outside")];
    for (const path of [volume, outside, join(volume, "a")]) await mkdir(path);
    await symlink("../../outside", join(volume, "a", "b"));
    await assert.rejects(write(volume, files({}), undefined, ["a/b/c"]), /a link leads out of the volume/);
    assert.deepEqual(await readdir(outside), []);
  }));
