/** The program with all commands. `main` loads it. */
import { ownFiles } from "../lib/own-files.js";
import { actionsOn } from "../cli/run-program.js";
import { readBuildInfo } from "./build-info.js";
import { ownProcess } from "./own-process.js";
import { runCommandLine } from "./program.js";

const io = ownProcess(await readBuildInfo(ownFiles()));

process.exitCode = await runCommandLine(io.argv, io, actionsOn(io));
