import assert from "node:assert/strict";
import { test } from "node:test";
import { LineAssembler, outputOf, parseLogLine } from "../../../src/play/log-lines.js";

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
    "a CRI line that holds JSON",
    `${time} stdout F {"log":"x"}`,
    { stream: "stdout", text: '{"log":"x"}', isEnd: true },
  ],
  ["anything else", "{half", { stream: "stdout", text: "{half", isEnd: true }],
];
for (const [what, line, expected] of cases) {
  test(`parseLogLine() reads ${what}`, () => {
    assert.deepEqual(parseLogLine(line), expected);
  });
}

test("LineAssembler joins the parts of each stream by itself", () => {
  const assembler = new LineAssembler();
  const lines = [`${time} stdout P a`, `${time} stderr F e`, `${time} stdout P b`, `${time} stdout F c`];
  assert.deepEqual(
    lines.map((line) => assembler.add(parseLogLine(line))),
    [undefined, "e", undefined, "abc"],
  );
  assert.deepEqual(assembler.flush(), []);
});

test("LineAssembler gives out a line that never ends in bounded parts", () => {
  const assembler = new LineAssembler(4);
  const piece = { stream: "stdout", text: "abc", isEnd: false };
  assert.deepEqual([assembler.add(piece), assembler.add(piece)], [undefined, "abcabc"]);
});

test("outputOf() keeps a last line that was not ended", () => {
  assert.deepEqual(outputOf(`${time} stdout F a\n${time} stdout P b\n`), ["a", "b"]);
});
