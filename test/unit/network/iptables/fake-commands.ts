import type { CommandExit, RunCommand } from "../../../../src/network/iptables/run-command.js";
import { ShimError } from "../../../../src/lib/errors.js";

export interface RecordedCommand {
  readonly program: string;
  readonly words: readonly string[];
  readonly input: string | undefined;
}

export type Answer = Partial<CommandExit> | "notFound" | undefined;

/**
 * Commands that are recorded, and answered by `answer`; exit code 0 without output where that says nothing.
 */
export function fakeCommands(
  answer: (command: RecordedCommand) => Answer | Promise<Answer> = () => undefined,
): RunCommand & { readonly ran: RecordedCommand[]; readonly lines: () => string[] } {
  const ran: RecordedCommand[] = [];
  const run: RunCommand = async (program, words, { input, signal }) => {
    signal.throwIfAborted();
    const command = { program, words, input };
    ran.push(command);
    const reply = await answer(command);
    if (reply === "notFound") throw new ShimError("notFound", `run ${program}: not installed`);
    return { exitCode: 0, stdout: "", stderr: "", ...reply };
  };
  return Object.assign(run, {
    ran,
    lines: () => ran.map(({ program, words }) => [program, ...words].join(" ")),
  });
}

/** Never aborts. */
export const never = new AbortController().signal;
