/** All commands: their declarations. */
import { sayExitCodes } from "./exit-codes.js";
import { ShimError } from "../lib/errors.js";
import { ownFiles } from "../lib/own-files.js";
import { completionScript, shells } from "../cli/completion.js";
import type { CommandParts, DeclarationIo, RunAction } from "../cli/command-parts.js";
import { refuseArguments } from "../cli/flags.js";
import { type Program, startProgram } from "../cli/run-program.js";
import { addServeCommands, versionLine } from "../shim/serve/declare-serve.js";
import { addDoctorCommand } from "../doctor/cli/declare-doctor.js";
import { addWhyCommand } from "../history/cli/declare-why.js";
import { addPlayCommand } from "../play/cli/declare-play.js";
import { addPodCommands } from "../play/cli/declare-pod.js";
import { addDiffCommand } from "../compare/cli/declare-diff.js";
import { addRelayCommands } from "../compare/cli/declare-relay.js";
import { addForwardCommands } from "../forward/declare-forward.js";
import { addMigrateCommands } from "../migrate/cli/declare-migrate.js";
import { addInstallCommands } from "../install/cli/declare-install.js";
import { addCheckpointCommands } from "../../checkpoints/cli/declare-checkpoint.js";

/** The command tree, in the order of the help. */
export function buildProgram(
  io: DeclarationIo,
  runAction: RunAction<number>,
  name: CommandParts["programName"],
): Program {
  const program = startProgram(io, runAction, name);
  const { parts } = program;
  const { root, addCommand, refuseServeFlags } = parts;
  addServeCommands(parts);
  addDoctorCommand(parts);
  addWhyCommand(parts);
  addPlayCommand(parts);
  addDiffCommand(parts);
  addRelayCommands(parts);
  addForwardCommands(parts);
  addMigrateCommands(parts);
  addCheckpointCommands(parts);
  addPodCommands(parts);
  addInstallCommands(parts);

  const completion = addCommand("completion", "print the completions of a shell");
  completion.usage(shells.join("|")).action(() => {
    refuseServeFlags("completion");
    const shell = shells.find((each) => each === completion.args[0]);
    if (shell === undefined || completion.args.length > 1)
      throw new ShimError("invalid", `command "completion": needs one of ${shells.join(", ")}`);
    io.writeOut(completionScript(root, shell));
  });

  const version = addCommand("version", "print the version");
  version.option("--verify", "whether the executable has the bytes that it was made with");
  version.option("--licenses", "print the licenses of all that the executable has inside");
  version.action(async ({ verify = false, licenses = false }: { verify?: boolean; licenses?: boolean }) => {
    refuseArguments(version);
    refuseServeFlags("version");
    if (licenses && verify)
      throw new ShimError("invalid", 'command "version": --verify and --licenses: use one');
    if (licenses) io.writeOut(ownFiles().read(ownFiles().licenses).toString());
    else if (verify) await parts.run(() => import("./verify.js"), "runVerify", {});
    else io.writeOut(versionLine(io, name));
  });
  sayExitCodes(root);
  return program;
}
