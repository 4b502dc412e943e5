/** The commands `play` and `pod` alone, which launch.ts starts from one file: what the others need is not loaded. */
import { runProgram, startProgram } from "../cli/run-program.js";
import { clientActions } from "./client-actions.js";
import { programIo } from "../cli/process-io.js";

async function run(): Promise<number> {
  const argv = process.argv.slice(2);
  // Flags of the server before the command are for run.ts.
  const program = startProgram(programIo, { refuseServeFlags: () => undefined });
  const { addPlayCommand } = await import("../play/cli/play-commands.js");
  addPlayCommand(clientActions, program.parts);
  if (argv[0] !== "play") {
    const { addPodCommands } = await import("../play/pod/cli/pod-commands.js");
    addPodCommands(clientActions, program.parts);
  }
  return runProgram(argv, program, programIo, "");
}

/** The training of the code cache waits for it. A failure ends the process with its stack. */
export const ended = run().then((code) => {
  process.exitCode = code;
});
