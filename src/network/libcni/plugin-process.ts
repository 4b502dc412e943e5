/** Runs the binary of a plugin in a process group of its own, which is killed as a whole. */
import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { open, stat } from "node:fs/promises";
import { linkAbort, sleep } from "../../shim/lib/abort.js";
import { messageOf, ShimError } from "../../shim/lib/errors.js";
import { hasCode } from "../../shim/lib/files/file-errors.js";
import { LruMap } from "../../shim/lib/lru-map.js";

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

/**
 * Runs `path` without arguments in a process group of its own. When `signal` aborts, the whole group is
 * killed and the abort's reason is thrown. `unavailable`, with the path, for a binary that cannot be started.
 */
export async function runProcess(path: string, options: ProcessOptions): Promise<ProcessExit> {
  const limits = { ...defaults, ...options.limits };
  for (let tries = 1; ; tries += 1) {
    options.signal.throwIfAborted();
    try {
      await requireProgram(path);
      options.signal.throwIfAborted();
      options.beforeStart?.();
      return await runOnce(path, options, limits);
    } catch (error) {
      if (!hasCode(error, "ETXTBSY") || tries >= limits.busyTries) throw startError(path, error);
      await sleep(limits.busyPauseMs, options.signal);
    }
  }
}

/**
 * libuv passes a file that the kernel refuses to execute (ENOEXEC) to /bin/sh, which would run the text in it
 * as root, also behind the ELF header of another processor: see plugin-process.test.ts.
 */
async function requireProgram(path: string): Promise<void> {
  const { dev, ino, size, ctimeNs, ctimeMs } = await stat(path, { bigint: true });
  const identity = [dev, ino, size, ctimeNs].join(" ");
  if (programs.get(path) === identity) return;
  await lookAtProgram(path);
  if (Date.now() - Number(ctimeMs) > settledMs) programs.set(path, identity);
}

/** Identities of programs by path: a run then asks the thread pool for one thing in place of four. */
const programs = new LruMap<string, string>(64);
/** Two changes within one tick of the file system's clock (2 s on the coarsest) leave a file with one ctime. */
const settledMs = 3_000;

async function lookAtProgram(path: string): Promise<void> {
  const file = await open(path, "r");
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(elfHeaderBytes), 0, elfHeaderBytes, 0);
    if (buffer.toString("latin1", 0, Math.min(bytesRead, 2)) === "#!") return;
    if (isLoadable(buffer.subarray(0, bytesRead), (await file.stat()).size)) return;
  } finally {
    await file.close();
  }
  const text = `run ${JSON.stringify(path)}: neither a program for this processor nor a script that begins with #!`;
  throw new ShimError("unavailable", text, { path });
}

const elfHeaderBytes = 64;
/** ELF machine numbers that each processor runs: its own, and its 32-bit one. */
const machines: Readonly<Record<string, readonly number[]>> = { x64: [62, 3], arm64: [183, 40] };

/** Whether the kernel accepts the file as a program: not a truncated copy, nor one for another processor. */
function isLoadable(header: Buffer, fileBytes: number): boolean {
  if (header.length < elfHeaderBytes || header.toString("latin1", 0, 4) !== "\x7fELF") return false;
  const is64 = header[4] === 2;
  // Little endian, as the processors that this program runs on.
  if ((!is64 && header[4] !== 1) || header[5] !== 1) return false;
  const type = header.readUInt16LE(16);
  const known = machines[process.arch];
  if ((type !== 2 && type !== 3) || known?.includes(header.readUInt16LE(18)) === false) return false;
  const programHeaders = is64 ? Number(header.readBigUInt64LE(32)) : header.readUInt32LE(28);
  const entryBytes = header.readUInt16LE(is64 ? 54 : 42);
  const entries = header.readUInt16LE(is64 ? 56 : 44);
  return entries > 0 && programHeaders + entries * entryBytes <= fileBytes;
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
