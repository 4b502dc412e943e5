/** Runs iptables, ebtables, conntrack, ip, nsenter. Arguments are words, never a shell's text. */
import { withDeadline } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";
import { hasCode } from "../../lib/files/file-errors.js";
import { runProgram } from "../../shim/native/run-program.js";
import { startAsChild, type StartProgram } from "../../shim/native/start-program.js";

export interface CommandOptions {
  readonly signal: AbortSignal;
  /** Written to standard input, which is empty otherwise. */
  readonly input?: string;
  readonly timeoutMs?: number;
}

export interface CommandExit {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** As `runCommand`; tests put their own in its place. */
export type RunCommand = (
  program: string,
  words: readonly string[],
  options: CommandOptions,
) => Promise<CommandExit>;

const defaultTimeoutMs = 30_000;
/** Nat tables of nodes with many Services have tens of megabytes. */
const largestOutputBytes = 256 * 1024 * 1024;

/** For messages. */
const largestErrorBytes = 1024 * 1024;
/** How long to wait for a killed program. */
const deathMs = 1_000;

/** Runs programs that `start` starts. */
export function commandRunner(start: StartProgram): RunCommand {
  return (program, words, { signal, input = "", timeoutMs = defaultTimeoutMs }) => {
    const run = async (limited: AbortSignal): Promise<CommandExit> => {
      // Messages are matched, and shown, in one language.
      const request = { program, words, environment: { ...process.env, LC_ALL: "C" } };
      const limits = { stdoutBytes: largestOutputBytes, stderrBytes: largestErrorBytes, deathMs };
      let exit;
      try {
        exit = await runProgram(start, request, { input, signal: limited, ...limits });
      } catch (error) {
        limited.throwIfAborted();
        throw startError(program, error);
      }
      const { exitCode, stdout, stderr, signalName } = exit;
      if (exitCode === undefined)
        throw new ShimError("unknown", `run ${program}: ended with ${signalName ?? "a signal"}`);
      return { exitCode, stdout, stderr };
    };
    return withDeadline(signal, timeoutMs, `run ${program}`, run, { kind: "program" });
  };
}

/** Runs `program` to its end, whatever its exit code. `notFound`, `timeout`, or the reason of `signal`. */
export const runCommand = commandRunner(startAsChild);

/** Output of a command that has to succeed. Throws `commandError` for any other exit code than 0. */
export async function outputOf(
  run: RunCommand,
  program: string,
  words: readonly string[],
  options: CommandOptions,
): Promise<string> {
  const exit = await run(program, words, options);
  if (exit.exitCode !== 0) throw commandError(program, words, exit);
  return exit.stdout;
}

/** `unknown`, with what the command said; its words, exit code and stderr are fields. */
export function commandError(program: string, words: readonly string[], exit: CommandExit): ShimError {
  const stderr = exit.stderr.trim();
  const status = `exit status ${exit.exitCode}`;
  return new ShimError("unknown", `run ${program}: ${stderr === "" ? status : `${stderr} (${status})`}`, {
    command: [program, ...words].join(" "),
    exitCode: exit.exitCode,
    stderr,
  });
}

function startError(program: string, error: unknown): ShimError {
  if (!hasCode(error, "ENOENT", "EACCES", "ENOTDIR"))
    return ShimError.from(error, "unknown").within(`run ${program}`);
  return new ShimError("notFound", `run ${program}: not installed`, { command: program }, { cause: error });
}
