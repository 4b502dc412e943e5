/** A container that floods both streams with lines of 100 bytes, and what its log must be. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { long } from "../support/test-bed.js";

/** 100 MB, or 6. */
const floodLines = long ? 1_000_000 : 60_000;
/** Of a line of 100 bytes: a number, and this. */
export const lineText = "x".repeat(90);

/** A shell script: numbered lines on the standard output, every tenth number on the standard error, too. */
export const flood = [
  "i=0",
  `while [ $i -lt ${floodLines} ]; do`,
  `echo "$i ${lineText}"; [ $((i%10)) = 0 ] && echo "$i error" >&2`,
  // So that there is something to rotate for a while.
  `[ $((i%${long ? "10000" : "500"})) = 0 ] && sleep 0.1`,
  "i=$((i+1)); done",
].join("\n");

/** That each line of both streams is in the log once, in its order. */
export function assertWholeFlood(log: string): void {
  const expected = { stdout: createHash("sha256"), stderr: createHash("sha256") };
  for (let line = 0; line < floodLines; line += 1) {
    expected.stdout.update(`${line} ${lineText}\n`);
    if (line % 10 === 0) expected.stderr.update(`${line} error\n`);
  }
  for (const stream of ["stdout", "stderr"] as const) {
    const actual = outputOf(log, stream);
    const sum = createHash("sha256").update(actual, "latin1").digest("hex");
    assert.equal(sum, expected[stream].digest("hex"), `${stream}: ${firstBreak(actual, stream)}`);
  }
}

/** What a stream wrote, put together from the lines of a log. */
export function outputOf(log: string, stream: "stdout" | "stderr"): string {
  const pieces: string[] = [];
  for (const line of log.split("\n")) {
    if (line === "") continue;
    const [, from, tag] = line.split(" ", 3);
    if (from !== stream) continue;
    const start = line.indexOf(` ${stream} ${tag ?? ""} `) + stream.length + 4;
    pieces.push(line.slice(start), tag === "F" ? "\n" : "");
  }
  return pieces.join("");
}

/** For the message of a failure: where the numbers stop rising by the same step. */
function firstBreak(output: string, stream: string): string {
  const step = stream === "stdout" ? 1 : 10;
  const numbers = output
    .trimEnd()
    .split("\n")
    .map((line) => Number(line.split(" ", 1)[0]));
  const index = numbers.findIndex((number, at) => number !== at * step);
  return `${numbers.length} lines, the first wrong one is ${index}: ${String(numbers[index])}`;
}
