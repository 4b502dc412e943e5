import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { formatEntries, nothingFormatted } from "../../../../src/shim/logs/file/json-entries.js";

const time = "2026-01-02T15:04:05.123456789Z";

function format(
  input: string,
  maximumLines = Number.MAX_SAFE_INTEGER,
): { readonly output: string; readonly rest: string; readonly lines: number; readonly damaged: number } {
  const bytes = Buffer.from(input);
  const output = Buffer.alloc(bytes.length);
  const result = nothingFormatted();
  formatEntries(bytes, output, maximumLines, result);
  return {
    output: output.subarray(0, result.produced).toString(),
    rest: bytes.subarray(result.consumed).toString(),
    lines: result.lines,
    damaged: result.damaged,
  };
}

describe("formatEntries()", () => {
  const entries: readonly (readonly [name: string, json: string, line: string])[] = [
    ["a line", `{"log":"hello\\n","stream":"stdout","time":"${time}"}`, `${time} stdout F hello`],
    ["a piece of a line", `{"log":"hello","stream":"stderr","time":"${time}"}`, `${time} stderr P hello`],
    ["an empty line", `{"log":"\\n","stream":"stdout","time":"${time}"}`, `${time} stdout F `],
    ["no text at all", `{"stream":"stdout","time":"${time}"}`, `${time} stdout P `],
    [
      "attributes, also with quotes and other times",
      `{"log":"x\\n","stream":"stdout","attrs":{"a":"\\",\\"time\\":\\"1\\""},"time":"${time}"}`,
      `${time} stdout F x`,
    ],
    [
      "a text that looks like the end of an entry",
      `{"log":"\\",\\"stream\\":\\"stderr\\",\\"time\\":\\"1\\"}\\n","stream":"stdout","time":"${time}"}`,
      `${time} stdout F ","stream":"stderr","time":"1"}`,
    ],
    [
      "escapes",
      `{"log":"\\t\\r\\"\\\\\\/\\b\\f\\u0001\\u003c\\u00e9\\u2028\\ufffd\\ud83d\\ude00\\n","stream":"stdout","time":"${time}"}`,
      `${time} stdout F \t\r"\\/\b\f\u0001<é\u2028\ufffd😀`,
    ],
    [
      "text that ends with a backslash",
      `{"log":"\\\\n","stream":"stdout","time":"${time}"}`,
      `${time} stdout P \\n`,
    ],
    [
      "a short time, and one with a zone",
      `{"log":"x\\n","stream":"stdout","time":"2026-01-02T15:04:05+01:00"}`,
      "2026-01-02T15:04:05+01:00 stdout F x",
    ],
    [
      "a long text with an escape in it",
      `{"log":"${"y".repeat(500)}\\"${"z".repeat(500)}\\n","stream":"stdout","time":"${time}"}`,
      `${time} stdout F ${"y".repeat(500)}"${"z".repeat(500)}`,
    ],
    [
      "a whole piece of 16 KiB",
      `{"log":"${"y".repeat(16_384)}","stream":"stdout","time":"${time}"}`,
      `${time} stdout P ${"y".repeat(16_384)}`,
    ],
    [
      "an entry behind half of another",
      `{"log":"torn te{"log":"whole\\n","stream":"stdout","time":"${time}"}`,
      `${time} stdout F whole`,
    ],
  ];
  for (const [name, json, line] of entries) {
    test(name, () => {
      assert.deepEqual(format(`${json}\n`), { output: `${line}\n`, rest: "", lines: 1, damaged: 0 });
    });
  }

  const plain = `{"log":"x\\n","stream":"stdout","time":"${time}"}\n`;

  test("leaves out lines that are not entries, and counts them", () => {
    const input = `\0\0\0\n${plain}{"log":1}\n{"log":"x","stream":"stdin","time":"${time}"}\n`;
    assert.deepEqual(format(input), { output: `${time} stdout F x\n`, rest: "", lines: 1, damaged: 3 });
  });

  test("takes whole lines only, and no more than asked for", () => {
    const { rest, lines } = format(plain.repeat(3), 2);
    assert.deepEqual({ rest, lines }, { rest: plain, lines: 2 });
    assert.equal(format(plain + plain.slice(0, -1)).rest, plain.slice(0, -1));
  });
});
