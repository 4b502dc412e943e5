import assert from "node:assert/strict";
import { test } from "node:test";
import { nodeFiles } from "../../../../src/play/node/files.js";
import { LineAssembler, parseLogLine } from "../../../../src/play/node/log-lines.js";
import { LogTail } from "../../../../src/play/node/log-tail.js";
import { appendFile, rename, symlink, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

const time = "2024-05-01T10:00:00.123456789Z";

const cases: readonly (readonly [string, string, object])[] = [
  ["a CRI line", `${time} stdout F hello world`, { stream: "stdout", text: "hello world", isEnd: true }],
  ["a part of a CRI line", `${time} stderr P hel`, { stream: "stderr", text: "hel", isEnd: false }],
  ["a CRI line with more tags", `${time} stdout F:x a`, { stream: "stdout", text: "a", isEnd: true }],
  ["an empty CRI line", `${time} stdout F `, { stream: "stdout", text: "", isEnd: true }],
  [
    "a Docker line",
    `{"log":"a\\u003cb\\n","stream":"stderr","time":"${time}"}`,
    { stream: "stderr", text: "a<b", isEnd: true },
  ],
  [
    "a part of a Docker line",
    `{"log":"a","stream":"stdout","time":"${time}"}`,
    { stream: "stdout", text: "a", isEnd: false },
  ],
  [
    "a Docker line that looks like the CRI's",
    `{"log":"x stdout F y\\n","stream":"stdout"}`,
    { stream: "stdout", text: "x stdout F y", isEnd: true },
  ],
  [
    "a CRI line of JSON",
    `${time} stdout F {"log":"x"}`,
    { stream: "stdout", text: '{"log":"x"}', isEnd: true },
  ],
  ["anything else", "{half", { stream: "stdout", text: "{half", isEnd: true }],
];
for (const [what, line, expected] of cases)
  test(`parseLogLine() reads ${what}`, () => {
    const expectedTime = line.includes(time) ? time : "";
    assert.deepEqual(parseLogLine(line), { time: expectedTime, ...expected });
  });

test("LineAssembler gives out a line that never ends in bounded parts", () => {
  const assembler = new LineAssembler(4);
  const piece = { stream: "stdout", text: "abc", isEnd: false };
  assert.deepEqual([assembler.add(piece), assembler.add(piece)], [undefined, "abcabc"]);
});

async function linesOf(tail: LogTail): Promise<readonly string[]> {
  const lines: string[] = [];
  await tail.read((line) => lines.push(line));
  return lines;
}

async function withTail(
  work: (path: string, tail: LogTail, directory: string) => Promise<void>,
): Promise<void> {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "0.log");
  await using tail = new LogTail(path, nodeFiles);
  await work(path, tail, directory.path);
}

test("LogTail keeps half a line, also half a character, until its rest comes", () =>
  withTail(async (path, tail) => {
    const bytes = Buffer.from("aé\nb\n");
    await writeFile(path, bytes.subarray(0, 2));
    assert.deepEqual(await linesOf(tail), []);
    await appendFile(path, bytes.subarray(2));
    assert.deepEqual(await linesOf(tail), ["aé", "b"]);
  }));

test("LogTail follows a link whose target is exchanged", () =>
  withTail(async (path, tail, directory) => {
    const target = join(directory, "json.log");
    await writeFile(target, "a\n");
    await symlink(target, path);
    assert.deepEqual(await linesOf(tail), ["a"]);
    await rename(target, `${target}.1`);
    await writeFile(target, "b\n");
    assert.deepEqual(await linesOf(tail), ["b"]);
  }));

test("LogTail starts again in a file that was cut", () =>
  withTail(async (path, tail) => {
    await writeFile(path, "long line\n");
    await linesOf(tail);
    await truncate(path, 0);
    await appendFile(path, "b\n");
    assert.deepEqual(await linesOf(tail), ["b"]);
  }));

test("LogTail takes a line without an end in bounded parts", () =>
  withTail(async (path, tail) => {
    await writeFile(path, "x".repeat(2_500_000));
    const [first = "", second = "", ...more] = await linesOf(tail);
    assert.deepEqual([first.length, second.length, more], [1_048_576, 1_048_576, []]);
    await appendFile(path, "y\n");
    const found = (await linesOf(tail)).map((line) => line.slice(-2));
    assert.deepEqual(found, ["xy"]);
  }));

test("LogTail gives the unfinished last line of a rotated file by itself", () =>
  withTail(async (path, tail) => {
    await writeFile(path, "half");
    await linesOf(tail);
    await rename(path, `${path}.1`);
    await writeFile(path, "new\n");
    assert.deepEqual(await linesOf(tail), ["half", "new"]);
  }));

test("LogTail reads of a container that never stops what there was at the beginning of the read", async () => {
  let size = 200_000;
  const flood = {
    size: () => Promise.resolve(size),
    read: (_offset: number, bytes: number) => {
      size += 1_000_000;
      return Promise.resolve(Buffer.alloc(bytes, "x\n"));
    },
    isReplaced: () => Promise.resolve(false),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
  await using tail = new LogTail("/x", { openFile: () => Promise.resolve(flood) });
  let paces = 0;
  let bytes = 0;
  await tail.read(
    (line) => (bytes += line.length + 1),
    async () => {
      paces += 1;
      if (paces > 10) throw new Error("it reads on");
    },
  );
  assert.deepEqual([bytes, paces], [200_000, 4]);
});
