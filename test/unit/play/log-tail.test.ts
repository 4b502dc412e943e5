import assert from "node:assert/strict";
import { appendFile, mkdtemp, rename, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { LogTail } from "../../../src/play/log-tail.js";

async function withTail(
  work: (path: string, tail: LogTail, directory: string) => Promise<void>,
): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "play-log-tail-"));
  const tail = new LogTail(join(directory, "0.log"));
  try {
    await work(join(directory, "0.log"), tail, directory);
  } finally {
    await tail[Symbol.asyncDispose]();
    await rm(directory, { recursive: true });
  }
}

test("LogTail waits for a file that is not there yet", () =>
  withTail(async (path, tail) => {
    assert.deepEqual(await tail.read(), []);
    await writeFile(path, "a\n");
    assert.deepEqual(await tail.read(), ["a"]);
    assert.deepEqual(await tail.read(), []);
  }));

test("LogTail keeps half a line, also half a character, until its rest comes", () =>
  withTail(async (path, tail) => {
    const bytes = Buffer.from("aé\nb\n");
    await writeFile(path, bytes.subarray(0, 2));
    assert.deepEqual(await tail.read(), []);
    await appendFile(path, bytes.subarray(2));
    assert.deepEqual(await tail.read(), ["aé", "b"]);
  }));

test("LogTail reads the end of a rotated file before the new one", () =>
  withTail(async (path, tail) => {
    await writeFile(path, "a\n");
    await tail.read();
    await appendFile(path, "b\n");
    await rename(path, `${path}.1`);
    await writeFile(path, "c\n");
    assert.deepEqual(await tail.read(), ["b", "c"]);
  }));

test("LogTail follows a link whose target is exchanged", () =>
  withTail(async (path, tail, directory) => {
    const target = join(directory, "json.log");
    await writeFile(target, "a\n");
    await symlink(target, path);
    assert.deepEqual(await tail.read(), ["a"]);
    await rename(target, `${target}.1`);
    await writeFile(target, "b\n");
    assert.deepEqual(await tail.read(), ["b"]);
  }));

test("LogTail starts again in a file that was cut", () =>
  withTail(async (path, tail) => {
    await writeFile(path, "long line\n");
    await tail.read();
    await truncate(path, 0);
    await appendFile(path, "b\n");
    assert.deepEqual(await tail.read(), ["b"]);
  }));

test("LogTail reads lines longer than its buffer", () =>
  withTail(async (path, tail) => {
    const line = "x".repeat(200_000);
    await writeFile(path, `${line}\nend\n`);
    assert.deepEqual(await tail.read(), [line, "end"]);
  }));
