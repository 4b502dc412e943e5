/** From arguments to an exit code. */
import { CommanderError } from "commander";
import { ShimError } from "../lib/errors.js";
import { normalizeArguments } from "./arguments.js";
import { buildProgram, type Actions, type BuildInfo, type CommandIo } from "./program.js";

/**
 * Runs the command that `argv` (without node and script) names and answers the exit code: that of the action, or 1
 * after one line on standard error. Only a bug of this program is told with its stack.
 */
export async function runCommandLine(
  argv: readonly string[],
  actions: Actions,
  io: CommandIo,
  build: BuildInfo,
): Promise<number> {
  const program = buildProgram(actions, io, build);
  try {
    await program.command.parseAsync(normalizeArguments(argv), { from: "user" });
    return program.exitCode();
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return 0;
    io.writeError(`dockershim: ${describeFailure(error)}\n`);
    return 1;
  }
}

function describeFailure(error: unknown): string {
  if (error instanceof ShimError && error.kind !== "internal")
    return error.message.replaceAll(/\s*\n\s*/g, " ");
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
