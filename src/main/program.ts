/** All commands. */
import { ShimError } from "../lib/errors.js";
import { completionScript, shells } from "../cli/completion.js";
import type { DeclarationIo, RunAction } from "../cli/command-parts.js";
import { refuseArguments } from "../cli/flags.js";
import { type Program, runProgram, startProgram } from "../cli/run-program.js";
import { addServeCommands, versionLine } from "../shim/serve/declare-serve.js";
import { addPlayCommand } from "../play/cli/declare-play.js";
import { addPodCommands } from "../play/cli/declare-pod.js";
import { addDiffCommand } from "../compare/cli/declare-diff.js";
import { addRelayCommands } from "../compare/cli/declare-relay.js";
import { addForwardCommands } from "../forward/declare-forward.js";
import { addMigrateCommands } from "../migrate/cli/declare-migrate.js";
import { addCheckpointCommands } from "../../checkpoints/cli/declare-checkpoint.js";

/** The command tree, in the order of the help. Most callers use `runCommandLine`. */
function buildProgram(io: DeclarationIo, runAction: RunAction<number>): Program {
  const program = startProgram(io, runAction);
  const { root, addCommand, refuseServeFlags } = program.parts;
  addServeCommands(program.parts);
  addPlayCommand(program.parts);
  addDiffCommand(program.parts);
  addRelayCommands(program.parts);
  addForwardCommands(program.parts);
  addMigrateCommands(program.parts);
  addCheckpointCommands(program.parts);
  addPodCommands(program.parts);

  const completion = addCommand("completion", "print the completions of a shell");
  completion.usage(shells.join("|")).action(() => {
    refuseServeFlags("completion");
    const shell = shells.find((each) => each === completion.args[0]);
    if (shell === undefined || completion.args.length > 1)
      throw new ShimError("invalid", `command "completion": needs one of ${shells.join(", ")}`);
    io.writeOut(completionScript(root, shell));
  });

  const version = addCommand("version", "print the version");
  version.action(() => {
    refuseArguments(version);
    refuseServeFlags("version");
    io.writeOut(versionLine(io));
  });
  return program;
}

/** As `runProgram`, with all commands. */
export async function runCommandLine(
  argv: readonly string[],
  io: DeclarationIo,
  runAction: RunAction<number>,
): Promise<number> {
  return runProgram(argv, buildProgram(io, runAction), io);
}
