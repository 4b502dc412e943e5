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
  /** The text of an entry as JSON, and its line. */
  const texts: readonly (readonly [name: string, log: string, line: string])[] = [
    ["a line", "hello\\n", "F hello"],
    ["a piece of a line", "hello", "P hello"],
    ["an empty line, also the end of a line of whole pieces", "\\n", "F "],
    [
      "a text that looks like the end of an entry",
      String.raw`\",\"stream\":\"stderr\",\"time\":\"1\"}\n`,
      'F ","stream":"stderr","time":"1"}',
    ],
    [
      "escapes",
      String.raw`\t\r\"\\\/\b\f\u0001\u003c\u00e9\u2028\ufffd\ud83d\ude00\n`,
      'F \t\r"\\/\b\f\u0001<é\u2028\ufffd😀',
    ],
    ["text that ends with a backslash", "\\\\n", "P \\n"],
    [
      "a long text with an escape in it",
      `${"y".repeat(500)}\\"${"z".repeat(500)}\\n`,
      `F ${"y".repeat(500)}"${"z".repeat(500)}`,
    ],
    ["a whole piece of 16 KiB", "y".repeat(16_384), `P ${"y".repeat(16_384)}`],
  ];
  const entries: readonly (readonly [name: string, json: string, line: string])[] = [
    ...texts.map(
      ([name, log, line]) =>
        [name, `{"log":"${log}","stream":"stderr","time":"${time}"}`, `${time} stderr ${line}`] as const,
    ),
    ["no text at all", `{"stream":"stdout","time":"${time}"}`, `${time} stdout P `],
    [
      "attributes, also with quotes and other times",
      `{"log":"x\\n","stream":"stdout","attrs":{"a":"\\",\\"time\\":\\"1\\""},"time":"${time}"}`,
      `${time} stdout F x`,
    ],
    [
      "a short time, and one with a zone",
      `{"log":"x\\n","stream":"stdout","time":"2026-01-02T15:04:05+01:00"}`,
      "2026-01-02T15:04:05+01:00 stdout F x",
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
