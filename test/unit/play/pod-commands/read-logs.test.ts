import assert from "node:assert/strict";
import { appendFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { nodeFiles } from "../../../../src/play/node/files.js";
import { type LogOptions, readLogs } from "../../../../src/play/pod-commands/read-logs.js";
import { isKind } from "../../../../src/lib/errors.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

const never = new AbortController().signal;
const all: LogOptions = { follow: false, tail: undefined, sinceMs: undefined, timestamps: false, prefix: "" };
const time = (second: number): string => `2026-01-02T03:04:0${second}.000000000Z`;
const text = [
  `${time(1)} stdout F one`,
  `${time(2)} stderr P tw`,
  `${time(3)} stderr F o`,
  `${time(4)} stdout F 3`,
];

async function read(options: Partial<LogOptions>, more: readonly string[] = []): Promise<string> {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "0.log");
  await writeFile(path, `${[...text, ...more].join("\n")}\n`);
  let out = "";
  const isRunning = (): Promise<boolean> => Promise.resolve(false);
  await readLogs({ path, isRunning }, { ...all, ...options }, nodeFiles, (line) => (out += line), never);
  return out;
}

const unexpected = (line: string): void => assert.fail(line);

test("readLogs() writes the lines, with the parts of long ones joined", async () => {
  assert.equal(await read({}), "one\ntwo\n3\n");
  assert.equal(await read({ tail: 2 }), "two\n3\n");
  const rest = [`${time(5)} stdout P a prompt`];
  assert.equal(await read({ tail: 2 }, rest), "3\na prompt\n");
  assert.equal(await read({ tail: 0 }, rest), "");
  assert.equal(await read({ limitBytes: 6 }), "one\ntw");
  assert.equal(await read({ limitBytes: 8, follow: true }), "one\ntwo\n");
  assert.equal(await read({ limitBytes: 2, tail: 1 }, [`${time(5)} stdout F aä`]), "a");
  assert.equal(await read({ sinceMs: Date.parse("2026-01-02T03:04:04Z") }), "3\n");
  assert.equal(await read({ tail: 1, timestamps: true, prefix: "[web] " }), `[web] ${time(4)} 3\n`);
});

test("readLogs() writes a line of many parts whole", async () => {
  const part = "x".repeat(16_384);
  const parts = Array.from(
    { length: 13 },
    (_, number) => `${time(5)} stdout ${number === 12 ? "F" : "P"} ${part}`,
  );
  assert.equal(await read({ tail: 1 }, parts), `${part.repeat(13)}\n`);
});

test("readLogs() follows the file, also after a rotation, until the container has ended", async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "0.log");
  await writeFile(path, `${time(1)} stdout F one\n`);
  let out = "";
  let asked = 0;
  const isRunning = async (): Promise<boolean> => {
    asked += 1;
    if (asked === 1) {
      await appendFile(path, `${time(2)} stdout F two\n`);
      await rename(path, `${path}.old`);
      await writeFile(path, `${time(3)} stdout F three\n`);
    }
    return asked < 3;
  };
  await readLogs({ path, isRunning }, { ...all, follow: true }, nodeFiles, (line) => (out += line), never);
  assert.equal(out, "one\ntwo\nthree\n");
});

test("readLogs() says that there is no file", async () => {
  const source = { path: "/nonexistent/0.log", isRunning: () => Promise.resolve(false) };
  await assert.rejects(readLogs(source, all, nodeFiles, unexpected, never), (error) =>
    isKind(error, "notFound"),
  );
});
