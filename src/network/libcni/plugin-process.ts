/** Runs the binary of a plugin in a process group of its own, which is killed as a whole. */
import { statSync } from "node:fs";
import { open } from "node:fs/promises";
import { sleep } from "../../lib/abort.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import { hasCode } from "../../lib/files/file-errors.js";
import { LruMap } from "../../lib/lru-map.js";
import { runProgram, type ProgramExit } from "../../shim/native/run-program.js";
import { startAsChild, type StartProgram } from "../../shim/native/start-program.js";

export interface ProcessOptions {
  readonly environment: NodeJS.ProcessEnv;
  readonly input: string;
  readonly signal: AbortSignal;
  readonly limits?: Partial<ProcessLimits>;
  /** Called right before each attempt. An error ends the run. */
  readonly beforeStart?: () => void;
  /** Called with the pid before the process gets its input. An error ends the process. */
  readonly onStart?: (pid: number) => Promise<void>;
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
      await programs.require(path);
      signal.throwIfAborted();
      options.beforeStart?.();
      const request = { program: path, words: [], environment };
      return await runProgram(start, request, onStart === undefined ? run : { ...run, onStart });
    } catch (error) {
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
      ? "not a program of this machine"
      : hasCode(error, "ENOENT")
        ? "the file or its interpreter is missing"
        : hasCode(error, "ETXTBSY")
          ? "still being written"
          : messageOf(error);
  return new ShimError("unavailable", `run ${JSON.stringify(path)}: ${reason}`, { path }, { cause: error });
}

/** Two changes within one tick of the file system's clock (2 s on the coarsest) leave a file with one ctime. */
const settledMs = 3_000;

/** libuv gives a file that the kernel refuses to /bin/sh, which would run the text in it as root. */
export class KnownPrograms {
  /** By path: a run then asks for one thing in place of four, and not the thread pool. */
  readonly #identities = new LruMap<string, string>(64);

  constructor(
    private readonly deps: {
      readonly look: (path: string) => Promise<void>;
      /** Milliseconds since 1970, as the file system's. */
      readonly now: () => number;
    } = { look: lookAtProgram, now: () => Date.now() },
  ) {}

  /** Fails `unavailable` for a file that is no program. One that has not changed is not read again. */
  async require(path: string): Promise<void> {
    const { dev, ino, size, ctimeNs, ctimeMs } = statSync(path, { bigint: true });
    const identity = [dev, ino, size, ctimeNs].join(" ");
    if (this.#identities.get(path) === identity) return;
    await this.deps.look(path);
    if (this.deps.now() - Number(ctimeMs) > settledMs) this.#identities.set(path, identity);
  }
}

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

const programs = new KnownPrograms();
