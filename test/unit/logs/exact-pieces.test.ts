/** Lines whose length is a multiple of the 16 KiB at which Docker cuts: the last piece is a newline alone. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { LineAssembler, LineBuffer, TimedLineAssembler } from "../../../src/shim/logs/cri-lines.js";
import { formatEntries, nothingFormatted } from "../../../src/shim/logs/file/json-entries.js";
import { shownByKubelet } from "./kubelet-reader.js";

const pieceBytes = 16 * 1024;
const time = "2026-01-02T15:04:05.123456789Z";
const lengths = [0, 1, pieceBytes - 1, pieceBytes, pieceBytes + 1, 2 * pieceBytes, 3 * pieceBytes];
/** With a terminal a carriage return is part of the line. */
const ends = ["\n", "\r\n"];

/** As Docker's copier cuts output: pieces of 16 KiB without a newline, and the rest with its newline. */
function piecesOf(output: string): readonly string[] {
  const pieces: string[] = [];
  for (const line of output.match(/[^\n]*\n/g) ?? []) {
    for (let at = 0; at < line.length; at += pieceBytes) pieces.push(line.slice(at, at + pieceBytes));
  }
  return pieces;
}

const sources: readonly (readonly [string, (output: string) => Buffer])[] = [
  [
    "Docker's file",
    (output) => {
      const entries = piecesOf(output).map((log) => `${JSON.stringify({ log, stream: "stdout", time })}\n`);
      const input = Buffer.from(entries.join(""));
      const lines = Buffer.alloc(input.length);
      const formatted = nothingFormatted();
      formatEntries(input, lines, Number.MAX_SAFE_INTEGER, formatted);
      return lines.subarray(0, formatted.produced);
    },
  ],
  [
    "the logs API, with frames",
    (output) => {
      const lines = new LineBuffer();
      const assembler = new TimedLineAssembler("stdout", lines);
      for (const piece of piecesOf(output)) {
        assembler.push(Buffer.from(`${time} ${piece}`));
        assembler.end();
      }
      return lines.take();
    },
  ],
  [
    "the logs API, without frames",
    (output) => {
      const lines = new LineBuffer();
      const assembler = new TimedLineAssembler("stdout", lines);
      assembler.push(
        Buffer.from(
          piecesOf(output)
            .map((piece) => `${time} ${piece}`)
            .join(""),
        ),
      );
      assembler.end();
      return lines.take();
    },
  ],
  [
    "attached output",
    (output) => {
      const lines = new LineBuffer();
      const assembler = new LineAssembler("stdout", lines);
      for (let at = 0; at < output.length; at += 1000)
        assembler.push(Buffer.from(output.slice(at, at + 1000)), time);
      assembler.end(time);
      return lines.take();
    },
  ],
];

describe("a line of whole pieces", () => {
  for (const [name, logOf] of sources) {
    test(`${name}: kubelets show it as one line, and the next one after it`, () => {
      for (const length of lengths) {
        for (const end of ends) {
          const output = `${"x".repeat(length)}${end}next${end}`;
          assert.equal(shownByKubelet(logOf(output)), output, `${String(length)} bytes`);
        }
      }
    });
  }

  test("has its newline in an entry of its own, as Docker has it", () => {
    for (const [name, logOf] of sources) {
      const tags = [
        ...logOf(`${"x".repeat(pieceBytes)}\n`)
          .toString()
          .matchAll(/ stdout ([FP]) (.?)/g),
      ];
      assert.deepEqual(
        tags.map(([, tag, first]) => [tag, first]),
        [
          ["P", "x"],
          ["F", ""],
        ],
        name,
      );
    }
  });
});
