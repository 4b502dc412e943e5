import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { LineAssembler, LineBuffer, TimedLineAssembler } from "../../../src/shim/logs/cri-lines.js";
import { randomOf } from "./log-bench.js";

const time = "2026-01-02T15:04:05.123456789Z";

/** `bytes` in pieces of random sizes. */
function* piecesOf(bytes: Buffer, random: () => number): Generator<Buffer> {
  for (let start = 0; start < bytes.length;) {
    const end = start + 1 + Math.floor(random() ** 3 * 40_000);
    yield bytes.subarray(start, end);
    start = end;
  }
}

const content = Buffer.concat([
  Buffer.from("one\n\n"),
  Buffer.from("x".repeat(16_383)),
  Buffer.from("\n"),
  Buffer.from("y".repeat(16_384)),
  Buffer.from("\n"),
  Buffer.from("z".repeat(40_000)),
  Buffer.from([0x0a, 0xff, 0x00, 0xfe, 0x0a]),
  Buffer.from("end"),
]);
const expected = [
  "F one",
  "F ",
  `F ${"x".repeat(16_383)}`,
  `P ${"y".repeat(16_384)}`,
  "F ",
  ...[`P ${"z".repeat(16_384)}`, `P ${"z".repeat(16_384)}`, `F ${"z".repeat(40_000 - 2 * 16_384)}`],
  "F \xff\0\xfe",
  "P end",
]
  .map((line) => `${time} stdout ${line}\n`)
  .join("");

describe("LineAssembler", () => {
  test("cuts lines at 16 KiB, with output in pieces of any size", () => {
    for (let seed = 1; seed <= 20; seed += 1) {
      const lines = new LineBuffer();
      const assembler = new LineAssembler("stdout", lines);
      const taken: Buffer[] = [];
      for (const piece of piecesOf(content, randomOf(seed))) {
        assembler.push(piece, time);
        if (seed % 2 === 0) taken.push(Buffer.from(lines.take()));
      }
      assembler.end(time);
      taken.push(Buffer.from(lines.take()));
      assert.equal(Buffer.concat(taken).toString("latin1"), expected, `seed ${String(seed)}`);
    }
  });
});

describe("TimedLineAssembler", () => {
  const messages = expected
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const [, at = "", tag = "", text = ""] = /^(\S+) stdout (\S) (.*)$/s.exec(line) ?? [];
      return Buffer.from(`${at} ${text}${tag === "F" ? "\n" : ""}`, "latin1");
    });

  for (const frames of [true, false]) {
    test(`reads messages ${frames ? "in" : "without"} frames, in pieces of any size`, () => {
      for (let seed = 1; seed <= 20; seed += 1) {
        const lines = new LineBuffer();
        const assembler = new TimedLineAssembler("stdout", lines, { tty: !frames, losesLineEnds: false });
        const random = randomOf(seed);
        for (const part of frames ? messages : [Buffer.concat(messages)]) {
          for (const piece of piecesOf(part, random)) assembler.push(piece);
          assembler.end();
        }
        assert.equal(lines.take().toString("latin1"), expected, `seed ${String(seed)}`);
      }
    });
  }

  test("a piece is a whole frame, also where the engine has replaced bytes that are no UTF-8", () => {
    const lines = new LineBuffer();
    const assembler = new TimedLineAssembler("stdout", lines, { tty: false, losesLineEnds: false });
    const texts = ["\ufffd".repeat(16_384), `${"y".repeat(16_383)}\ufffd`, "\ufffdend"];
    for (const [index, text] of texts.entries()) {
      assembler.push(Buffer.from(`${time} ${text}${index === 2 ? "\n" : ""}`));
      assembler.end();
    }
    const written = texts.map((text, index) => `${time} stdout ${index === 2 ? "F" : "P"} ${text}\n`);
    assert.equal(lines.take().toString(), written.join(""));
  });

  test("the end of a message ends a long line when the engine loses its newline", () => {
    const lines = new LineBuffer();
    const assembler = new TimedLineAssembler("stdout", lines, { tty: false, losesLineEnds: true });
    for (const text of ["y".repeat(16_384), "y".repeat(16_384), "rest", "last"]) {
      assembler.push(Buffer.from(`${time} ${text}`));
      assembler.end();
    }
    const tags = lines
      .take()
      .toString()
      .trimEnd()
      .split("\n")
      .map((line) => line.slice(time.length + 8).replace(/y+/, "y"));
    assert.deepEqual(tags, ["P y", "P y", "F rest", "P last"]);
  });
});
