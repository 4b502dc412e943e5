/** Runs the binary of a plugin in a process group of its own, which is killed as a whole. */
import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { linkAbort, sleep } from "../../shim/lib/abort.js";
import { messageOf, ShimError } from "../../shim/lib/errors.js";
import { hasCode } from "../../shim/lib/files/file-errors.js";
import { KnownPrograms } from "./known-programs.js";

export interface ProcessOptions {
  readonly environment: NodeJS.ProcessEnv;
  readonly input: string;
  readonly signal: AbortSignal;
  readonly limits?: Partial<ProcessLimits>;
  /** Called right before each attempt. An error ends the run. */
  readonly beforeStart?: () => void;
  /** Called with the pid before the process gets its input. An error ends the process. */
  readonly onStart?: (pid: number) => Promise<void>;
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

export interface ProcessExit {
  /** Undefined when a signal ended it. */
  readonly exitCode: number | undefined;
  readonly signalName: string | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

const programs = new KnownPrograms();

/**
 * Runs `path` without arguments in a process group of its own. When `signal` aborts, the whole group is
 * killed and the abort's reason is thrown. `unavailable`, with the path, for a binary that cannot be started.
 */
export async function runProcess(path: string, options: ProcessOptions): Promise<ProcessExit> {
  const limits = { ...defaults, ...options.limits };
  for (let tries = 1; ; tries += 1) {
    options.signal.throwIfAborted();
    try {
      await programs.require(path);
      options.signal.throwIfAborted();
      options.beforeStart?.();
      return await runOnce(path, options, limits);
    } catch (error) {
      if (!hasCode(error, "ETXTBSY") || tries >= limits.busyTries) throw startError(path, error);
      await sleep(limits.busyPauseMs, options.signal);
    }
  }
}

async function runOnce(path: string, options: ProcessOptions, limits: ProcessLimits): Promise<ProcessExit> {
  const { environment, input, signal, onStart } = options;
  // Detached: the leader of a process group of its own.
  const child = spawn(path, [], { env: environment, detached: true, stdio: ["pipe", "pipe", "pipe"] });
  return new Promise((resolve, reject) => {
    const stdout = new Collector(limits.stdoutBytes);
    const stderr = new Collector(limits.stderrBytes);
    let timer: NodeJS.Timeout | undefined;
    let stopReason: unknown;

    const stop = (reason: unknown): void => {
      if (stopReason !== undefined || child.exitCode !== null || child.signalCode !== null) return;
      stopReason = reason;
      killGroup(child);
      timer = setTimeout(finish, limits.deathMs);
    };
    const finish = (): void => {
      clearTimeout(timer);
      link[Symbol.dispose]();
      child.stdout.destroy();
      child.stderr.destroy();
      if (stopReason !== undefined) {
        reject(ShimError.from(stopReason));
        return;
      }
      resolve({
        exitCode: child.exitCode ?? undefined,
        signalName: child.signalCode ?? undefined,
        stdout: stdout.text(),
        stderr: stderr.text(),
      });
    };

    const link = linkAbort(signal, () => {
      stop(ShimError.from(signal.reason));
    });
    child.once("error", (error) => {
      clearTimeout(timer);
      link[Symbol.dispose]();
      reject(error);
    });
    child.once("exit", () => {
      clearTimeout(timer);
      timer = setTimeout(finish, limits.graceMs);
    });
    child.once("close", finish);
    child.stdout.on("data", (chunk: Buffer) => {
      if (!stdout.add(chunk)) {
        stop(new ShimError("unknown", `wrote more than ${limits.stdoutBytes} bytes to stdout`));
      }
    });
    child.stderr.on("data", (chunk: Buffer) => void stderr.add(chunk));
    // A plugin may exit without reading its configuration: its exit says more than EPIPE.
    child.stdin.on("error", () => undefined);
    const instruct = async (): Promise<void> => {
      // A program that could not be started has no pid: its error event has the reason.
      if (child.pid !== undefined) await onStart?.(child.pid);
      child.stdin.end(input);
    };
    instruct().catch(stop);
  });
}

function killGroup(child: ChildProcessWithoutNullStreams): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch (error) {
    // ESRCH: the group has ended. After any other error at least the leader is killed.
    if (!hasCode(error, "ESRCH")) child.kill("SIGKILL");
  }
}

function startError(path: string, error: unknown): ShimError {
  if (error instanceof ShimError) return error;
  const reason = hasCode(error, "EACCES")
    ? "not executable"
    : hasCode(error, "ENOEXEC")
      ? "not a program of this machine"
      : hasCode(error, "ENOENT")
        ? "the file or its interpreter is missing"
        : hasCode(error, "ETXTBSY")
          ? "still being written"
          : messageOf(error);
  return new ShimError("unavailable", `run ${JSON.stringify(path)}: ${reason}`, { path }, { cause: error });
}

/** The first bytes of a stream. */
class Collector {
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(private readonly limit: number) {}

  /** False when the limit is reached. */
  add(chunk: Buffer): boolean {
    const room = this.limit - this.#bytes;
    const kept = chunk.length <= room ? chunk : chunk.subarray(0, room);
    this.#bytes += kept.length;
    if (kept.length > 0) this.#chunks.push(kept);
    return kept.length === chunk.length;
  }

  text(): string {
    return Buffer.concat(this.#chunks).toString("utf8");
  }
}
