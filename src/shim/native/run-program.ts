/** Runs a program to its end, within limits. */
import { linkAbort } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";
import type { ProgramEnd, ProgramRequest, StartProgram } from "./start-program.js";

export interface RunOptions {
  readonly input: string;
  readonly signal: AbortSignal;
  /** A program that writes more is killed. */
  readonly stdoutBytes: number;
  /** Output beyond this is read and dropped. */
  readonly stderrBytes: number;
  /** How long to wait for the pipes after the end: a child may keep them open. Without end by default. */
  readonly graceMs?: number;
  /** How long to wait for a killed program. */
  readonly deathMs: number;
  /** Called before the program gets its input, as `ProgramListener.started`. An error ends the program. */
  readonly onStart?: (pid: number, stat?: string) => Promise<void>;
}

export interface ProgramExit extends ProgramEnd {
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * When `signal` aborts, the process group of the program is killed and the abort's reason is thrown. Throws the
 * error with a `code` of a program that cannot be started.
 */
export function runProgram(
  start: StartProgram,
  request: ProgramRequest,
  options: RunOptions,
): Promise<ProgramExit> {
  const { input, signal, onStart, graceMs, deathMs, stdoutBytes, stderrBytes } = options;
  return new Promise((resolve, reject) => {
    const stdout = new Collector(stdoutBytes);
    const stderr = new Collector(stderrBytes);
    let timer: NodeJS.Timeout | undefined;
    let end: ProgramEnd | undefined;
    let stopReason: unknown;

    const settle = (failure?: unknown): void => {
      clearTimeout(timer);
      link[Symbol.dispose]();
      const reason = stopReason ?? failure;
      if (reason !== undefined) reject(reason instanceof Error ? reason : ShimError.from(reason));
      else resolve({ exitCode: undefined, signalName: undefined, ...end, ...texts() });
    };
    const texts = (): { stdout: string; stderr: string } => ({
      stdout: stdout.text(),
      stderr: stderr.text(),
    });
    const abandon = (): void => {
      program.leave();
      settle();
    };
    const stop = (reason: unknown): void => {
      if (stopReason !== undefined) return;
      stopReason = reason;
      if (end !== undefined) {
        abandon();
        return;
      }
      program.kill();
      timer = setTimeout(abandon, deathMs);
    };
    const instruct = async (pid: number, stat?: string): Promise<void> => {
      if (stopReason !== undefined) return;
      await onStart?.(pid, stat);
      program.feed(input);
    };

    const program = start(request, {
      started: (pid, stat) => {
        if (onStart !== undefined) instruct(pid, stat).catch(stop);
      },
      output: (stream, chunk) => {
        if (stream === "stderr") stderr.add(chunk);
        else if (!stdout.add(chunk)) {
          stop(new ShimError("unknown", `wrote more than ${stdoutBytes} bytes to stdout`));
        }
      },
      ended: (how) => {
        end = how;
        clearTimeout(timer);
        if (graceMs !== undefined || stopReason !== undefined)
          timer = setTimeout(abandon, graceMs ?? deathMs);
      },
      closed: settle,
      failed: settle,
    });
    if (onStart === undefined) program.feed(input);
    const link = linkAbort(signal, () => {
      // A program that has ended has its result, which comes in the grace period.
      if (end === undefined || graceMs === undefined) stop(ShimError.from(signal.reason));
    });
  });
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
