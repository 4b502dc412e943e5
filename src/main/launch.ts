#!/usr/bin/env node
/**
 * What bin/dockershim starts: the program as one file with V8's code cache. The commands `play` and `pod`, for which
 * people wait, have a smaller one.
 */
import { join } from "node:path";
import { readProgram } from "./cached-program.js";
import { saveMemoryAfterStart } from "./v8-flags.js";

const [command, subject, ...rest] = process.argv.slice(2);
const isQuick =
  (command === "play" || command === "pod" || (command === "docker-cli-plugin" && subject === "pod")) &&
  // The supervisor runs for long.
  ![subject, ...rest].includes("--supervise");
if (!isQuick) saveMemoryAfterStart();
reader(isQuick ? "quick" : "dockershim")?.();

/** One line, and not Node.js's stack, which names no remedy, when a file of the program cannot be read. */
function reader(name: string): (() => unknown) | undefined {
  try {
    return readProgram(join(import.meta.dirname, name)).run;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    process.stderr.write(`dockershim: the installation is damaged, install it again: ${reason}\n`);
    process.exitCode = 1;
    return undefined;
  }
}
