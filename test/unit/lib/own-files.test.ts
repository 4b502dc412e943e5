import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  chmod,
  lstat,
  mkdir,
  readdir,
  readFile,
  rename,
  stat,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { basename, join } from "node:path";
import { describe, test } from "node:test";
import { filesOfExecutable, findPackageDirectory, ownFiles } from "../../../src/lib/own-files.js";
import { temporaryDirectory } from "./temporary-directory.js";

test("the directory of package.json is found from sources and from files of a build", async () => {
  await using directory = await temporaryDirectory();
  const root = directory.path;
  await writeFile(join(root, "package.json"), "{}");
  for (const path of ["src/lib", "dist/chunks", "dist"]) {
    await mkdir(join(root, path), { recursive: true });
    assert.equal(findPackageDirectory(join(root, path)), root);
  }
  assert.throws(() => findPackageDirectory("/proc/self"), { kind: "internal" });
});

test("a checkout reads its own files and starts its programs where they are", () => {
  const { read, program, directory = "" } = ownFiles();
  assert.equal((JSON.parse(read("package.json").toString()) as { name: string }).name, "dockershim");
  assert.equal(program("native/bin/pause-amd64", "/nowhere"), join(directory, "native/bin/pause-amd64"));
});

describe("a program inside of an executable", () => {
  const script = (word: string): Buffer => Buffer.from(`#!/bin/sh\necho ${word}\n`);
  const carrying = (content: Buffer) => filesOfExecutable(() => content);

  test("is written to a private directory and runs from there", async () => {
    await using directory = await temporaryDirectory();
    const programs = join(directory.path, "programs");
    const path = carrying(script("one")).program("native/bin/helper-amd64", programs);
    assert.equal(execFileSync(path).toString(), "one\n");
    for (const each of [programs, path]) assert.equal((await stat(each)).mode & 0o777, 0o700);
  });

  test("replaces a damaged file, one of another version, and one half written", async () => {
    await using directory = await temporaryDirectory();
    const programs = directory.path;
    await chmod(programs, 0o755);
    const path = carrying(script("new")).program("helper-amd64", programs);
    await writeFile(path, "damaged");
    // A process of the same number was killed, and one is writing.
    const [old, young] = [`.${basename(path)}.${process.pid}`, `.${basename(path)}.0123456789abcdef`];
    for (const half of [old, young]) await writeFile(join(programs, half), "half");
    await utimes(join(programs, old), 0, 0);
    carrying(script("old")).program("helper-amd64", programs);
    await writeFile(join(programs, "pod-dialer-amd64-0123456789abcdef"), "another program");
    assert.equal(execFileSync(carrying(script("new")).program("helper-amd64", programs)).toString(), "new\n");
    await writeFile(path, "damaged");
    const again = carrying(script("new")).program("helper-amd64", programs);
    assert.deepEqual(await readFile(again), script("new"));
    const foreign = "pod-dialer-amd64-0123456789abcdef";
    assert.deepEqual((await readdir(programs)).sort(), [young, basename(path), foreign]);
  });

  test("is not written through a link", async () => {
    await using directory = await temporaryDirectory();
    const [target, link] = [join(directory.path, "target"), join(directory.path, "programs")];
    await mkdir(target, { mode: 0o755 });
    await symlink(target, link);
    const files = carrying(script("x"));
    assert.throws(() => files.program("helper-amd64", link), /the directory is another user's, or a link/);
    assert.equal((await stat(target)).mode & 0o777, 0o755);
    const path = files.program("helper-amd64", join(directory.path, "own"));
    await rename(path, join(directory.path, "elsewhere"));
    await symlink(join(directory.path, "elsewhere"), path);
    files.program("helper-amd64", join(directory.path, "own"));
    assert.ok((await lstat(path)).isFile());
  });

  test("that cannot be written is an error with its path", async () => {
    await using directory = await temporaryDirectory();
    await writeFile(join(directory.path, "file"), "");
    assert.throws(
      () => carrying(script("x")).program("helper-amd64", join(directory.path, "file")),
      /write the program ".*\/file\/helper-amd64-[0-9a-f]{16}": /,
    );
  });
});
