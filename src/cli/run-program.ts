/** What every command line of this program has, whatever its commands are. */
import { Command, CommanderError } from "commander";
import { ShimError } from "../lib/errors.js";
import type { ProgramName } from "../shim/config/option.js";
import type { GivenFlag } from "../shim/config/resolve.js";
import type { Action, CommandParts, DeclarationIo, RunAction } from "./command-parts.js";
import { asDockerPlugin, commandNames, pluginMetadata, readPluginCall } from "./docker-plugin.js";
import { normalizeArguments, plainSwitches, refuseServeFlags, usageErrorsOf } from "./flags.js";
import type { ProcessIo } from "./process-io.js";

export interface Program {
  readonly command: Command;
  /** For the declarations of commands. */
  readonly parts: CommandParts;
  /** The exit code of the action, after `command` was parsed. */
  exitCode(): number;
}

/** For `startProgram`: actions work on `io`. */
export function actionsOn(io: ProcessIo): RunAction<number> {
  return async (load, name, options) => {
    const action: Action = (await load())[name];
    return action(options, io);
  };
}

/** A program without commands. */
export function startProgram(
  io: DeclarationIo,
  runAction: RunAction<number>,
  programName: ProgramName = "dockershim",
): Program {
  let exitCode = 0;
  const root = new Command(programName)
    .description("Serves the Kubernetes Container Runtime Interface on a Docker Engine")
    .usage("[command] [flags]")
    .enablePositionalOptions()
    .allowExcessArguments()
    .helpCommand(false)
    .configureOutput({
      writeOut: (text) => {
        io.writeOut(text);
      },
      // runProgram() prints the error on one line.
      writeErr: () => undefined,
    });
  root.exitOverride(usageErrorsOf(root));
  const addCommand: CommandParts["addCommand"] = (name, summary, { hidden = false, parent = root } = {}) => {
    const command = parent.command(name, { hidden }).summary(summary).description(summary);
    return command.exitOverride(usageErrorsOf(command));
  };
  const run: CommandParts["run"] = async (load, name, options) => {
    exitCode = await runAction(load, name, options);
  };
  const serveFlags: GivenFlag[] = [];
  const parts: CommandParts = {
    programName,
    root,
    addCommand,
    run,
    io,
    serveFlags,
    refuseServeFlags: (name) => {
      refuseServeFlags(serveFlags, name);
    },
  };
  return { command: root, parts, exitCode: () => exitCode };
}

/**
 * Runs the command of `argv` (without node and script) and returns the exit code: that of the action, or 1
 * after one line on standard error. Only bugs of this program are printed with a stack.
 */
export async function runProgram(
  argv: readonly string[],
  program: Program,
  io: DeclarationIo,
): Promise<number> {
  try {
    const plugin = readPluginCall(argv);
    if (plugin?.kind === "metadata") {
      io.writeOut(pluginMetadata(io.version));
      return 0;
    }
    if (plugin !== undefined) asDockerPlugin(program.command);
    const { command } = program;
    const words = plainSwitches(normalizeArguments(plugin?.argv ?? argv), command);
    await command.parseAsync(words, { from: "user" });
    return program.exitCode();
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return 0;
    io.writeError(`dockershim: ${commandNames(argv)(describeFailure(error))}\n`);
    return 1;
  }
}

/** What the system says of a file, as that it may not be read, is no bug. */
function describeFailure(error: unknown): string {
  if (error instanceof ShimError && (error.kind !== "internal" || error.fields["errno"] !== undefined))
    return error.message.replaceAll(/\s*\n\s*/g, " ");
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
