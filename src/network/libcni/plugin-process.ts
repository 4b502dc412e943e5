/** Runs the binary of a plugin in a process group of its own, which is killed as a whole. */
import { sleep } from "../../lib/abort.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import { hasCode } from "../../lib/files/file-errors.js";
import { notAProgram } from "../../shim/native/known-programs.js";
import { runProgram, type ProgramExit, type RunOptions } from "../../shim/native/run-program.js";
import { startAsChild, type StartProgram } from "../../shim/native/start-program.js";

export interface ProcessOptions {
  readonly environment: NodeJS.ProcessEnv;
  readonly input: string;
  readonly signal: AbortSignal;
  readonly limits?: Partial<ProcessLimits>;
  /** Called right before each attempt. An error ends the run. */
  readonly beforeStart?: () => void;
  /** As that of `RunOptions`. */
  readonly onStart?: RunOptions["onStart"];
  /** The process that `onStart` was told of could not become the plugin. Another attempt may follow. */
  readonly onFailed?: () => void;
  /** As a child of this process by default. */
  readonly start?: StartProgram;
}

export interface ProcessLimits {
  readonly stdoutBytes: number;
  /** Output beyond this is read and dropped. */
  readonly stderrBytes: number;
  /** How long to wait for the pipes after the exit: a child of the plugin may keep them open. */
  readonly graceMs: number;
  /** How long to wait for a killed process. */
  readonly deathMs: number;
  /** Attempts, and the pause between them, while the binary is being replaced (ETXTBSY). */
  readonly busyTries: number;
  readonly busyPauseMs: number;
}

const defaults: ProcessLimits = {
  stdoutBytes: 16 * 1024 * 1024,
  stderrBytes: 64 * 1024,
  graceMs: 1000,
  deathMs: 5000,
  busyTries: 6,
  busyPauseMs: 1000,
};

/** Runs `path` in a process group, which `signal` kills. `unavailable` for what cannot be started. */
export async function runProcess(path: string, options: ProcessOptions): Promise<ProgramExit> {
  const limits = { ...defaults, ...options.limits };
  const { signal, environment, input, onStart, start = startAsChild } = options;
  const { stdoutBytes, stderrBytes, graceMs, deathMs } = limits;
  const run = { input, signal, stdoutBytes, stderrBytes, graceMs, deathMs };
  for (let tries = 1; ; tries += 1) {
    signal.throwIfAborted();
    try {
      options.beforeStart?.();
      const request = { program: path, words: [], environment };
      return await runProgram(start, request, onStart === undefined ? run : { ...run, onStart });
    } catch (error) {
      if (!(error instanceof ShimError)) options.onFailed?.();
      if (!hasCode(error, "ETXTBSY") || tries >= limits.busyTries) throw startError(path, error);
      await sleep(limits.busyPauseMs, signal);
    }
  }
}

function startError(path: string, error: unknown): ShimError {
  if (error instanceof ShimError) return error;
  const reason = hasCode(error, "EACCES")
    ? "not executable"
    : hasCode(error, "ENOEXEC")
      ? notAProgram
      : hasCode(error, "ENOENT")
        ? "the file or its interpreter is missing"
        : hasCode(error, "ETXTBSY")
          ? "still being written"
          : messageOf(error);
  return new ShimError("unavailable", `run ${JSON.stringify(path)}: ${reason}`, { path }, { cause: error });
}
