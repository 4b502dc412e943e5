/** The commands `play` and `pod` alone: what the others need is not loaded. launch.ts starts it. */
import { actionsOn, runProgram, startProgram } from "../cli/run-program.js";
import { ownProcess } from "./own-process.js";

async function run(): Promise<number> {
  // No command of these names the version.
  const io = ownProcess({ version: "", commit: "" });
  const program = startProgram(io, actionsOn(io));
  const { addPlayCommand } = await import("../play/cli/declare-play.js");
  addPlayCommand(program.parts);
  if (io.argv[0] !== "play") {
    const { addPodCommands } = await import("../play/cli/declare-pod.js");
    addPodCommands(program.parts);
  }
  return runProgram(io.argv, program, io);
}

/** The training of the code cache waits for it. A failure ends the process with its stack. */
export const ended = run().then((code) => {
  process.exitCode = code;
});
