/** A container that floods both streams with lines of 100 bytes, and what a log says. */
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
