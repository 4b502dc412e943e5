#!/usr/bin/env node
/**
 * What bin/dockershim starts for the commands that people wait for: they run from one file. What else they are
 * used for, as the supervisor, which runs for long, and what is not theirs runs from the files of main.ts.
 */
import { join } from "node:path";
import { refuseDamaged, refuseMissingModule } from "./damaged-installation.js";
import { type QuickProgram, readProgram } from "./quick-start.js";

const [command, subject, ...rest] = process.argv.slice(2);
const isQuick =
  (command === "play" || command === "pod" || (command === "docker-cli-plugin" && subject === "pod")) &&
  ![subject, ...rest].includes("--supervise") &&
  // Node.js reads the source maps of what its own loader loads.
  !process.sourceMapsEnabled;

const directory = import.meta.dirname;
if (isQuick) quickProgram()?.run();
else import("./main.js").catch(refuseMissingModule);

function quickProgram(): QuickProgram | undefined {
  try {
    return readProgram(join(directory, "quick.cjs"), join(directory, "quick.cache"));
  } catch (error) {
    refuseDamaged(error);
    return undefined;
  }
}
