import type { Command } from "commander";

/** The end of a command's help. `findings`: what code 2 means, where the command gives it. */
export function sayExitCodes(command: Command, success: string, findings?: string): Command {
  const second = findings === undefined ? "" : `\n  2  ${findings}`;
  return command.addHelpText(
    "after",
    `\nExit codes:\n  0  ${success}\n  1  the command failed: one line on standard error says why${second}`,
  );
}
