/** The program with all commands. */
import { ownFiles } from "../lib/own-files.js";
import { actionsOn } from "../cli/run-program.js";
import { readBuildInfo } from "./build-info.js";
import { ownProcess } from "./own-process.js";
import { runCommandLine } from "./program.js";

async function run(): Promise<number> {
  const io = ownProcess(await readBuildInfo(ownFiles()));
  return runCommandLine(io.argv, io, actionsOn(io));
}

/** A failure ends the process with its stack. */
export const ended = run().then((code) => {
  process.exitCode = code;
});
