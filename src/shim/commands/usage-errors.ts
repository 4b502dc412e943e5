/** commander's complaints in the form of all other errors: one line that names flag, value and reason. */
import type { Command, CommanderError } from "commander";
import { ShimError } from "../lib/errors.js";
import { didYouMean, nearestName } from "../config/nearest.js";

/** For `command.exitOverride`: every failure becomes a ShimError; "help was printed" passes. */
export function usageErrorsOf(command: Command): (error: CommanderError) => void {
  return (error) => {
    if (error.exitCode === 0) throw error;
    // The texts have several lines; the flag in question stands in the first quotes.
    const quoted = /'([^']*)'/.exec(error.message)?.[1] ?? "";
    if (error.code === "commander.unknownOption") {
      throw new ShimError("invalid", unknownFlag(quoted.replace(/=.*$/s, ""), command));
    }
    if (error.code === "commander.optionMissingArgument") {
      const flag = /--[^ ,]+/.exec(quoted)?.[0] ?? quoted;
      throw new ShimError("invalid", `flag "${flag}": needs a value`);
    }
    throw new ShimError("invalid", error.message.replace(/^error: /, "").replaceAll(/\s*\n\s*/g, " "));
  };
}

function unknownFlag(flag: string, command: Command): string {
  const name = flag.replace(/^-+/, "").replaceAll("_", "-");
  const offered = command.options
    .filter((option) => !option.hidden)
    .map((option) => (option.long ?? "").slice(2));
  const ofCommand = command.parent === null ? "" : ` of the command "${command.name()}"`;
  return `unknown flag "${flag}"${ofCommand}${didYouMean(name, [...offered, "help"], (nearest) => `--${nearest}`)}`;
}

/** Throws for arguments of a command that takes none. */
export function refuseArguments(command: Command): void {
  const [first] = command.args;
  if (first === undefined) return;
  const nearest = nearestName(
    first,
    command.commands.map((child) => child.name()),
  );
  const hint = nearest === undefined ? "" : `: did you mean the command "${nearest}"?`;
  throw new ShimError("invalid", `unexpected argument ${JSON.stringify(first)}${hint}`);
}
