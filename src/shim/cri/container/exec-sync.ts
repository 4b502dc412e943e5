import { sleep, withDeadline } from "../../../lib/abort.js";
import type { Answer, ExecSyncResponse } from "../../../domain/cri.js";
import { execEnvironment } from "../../plan/fields-in-flight.js";
import type { ExecOptions, ProcessStreams } from "../../ports/engine.js";
import { runExec } from "./exec-process.js";
import { requireRunningContainer } from "../find-by-id.js";
import type { Handler } from "../services.js";

/** The limit of the CRI for each stream. Output beyond it is read and dropped, so that the process can end. */
const outputLimitBytes = 16 * 1024 * 1024;
/** Limit of both streams together: the answer must fit into a message of 16 MiB. */
const answerLimitBytes = outputLimitBytes - 64 * 1024;
/**
 * Pause between two dropped chunks (mostly of 64 KiB). A process that writes without end, such as a probe
 * with `yes`, waits on its full pipe meanwhile. Otherwise it would use all CPU time of this program.
 */
const dropPauseMs = 20;

/** Runs a command to its end. A non-zero exit is a normal answer. The timeout kills the process (`runExec`). */
export const execSync: Handler<"ExecSync"> = async (request, services, call) => {
  await services.state.link.live(call.signal);
  const { id } = await requireRunningContainer(request.container_id, services, call.signal);
  const timeoutMs = Number(request.timeout) * 1000;
  const options: ExecOptions = {
    command: request.cmd,
    ...execEnvironment(request),
    tty: false,
    stdin: false,
    stdout: true,
    stderr: true,
  };
  const run = async (signal: AbortSignal): Promise<Answer<ExecSyncResponse>> => {
    const context = { ...call, signal };
    const { result, exitCode } = await runExec(id, options, services, context, ({ streams }) =>
      readOutput(streams, signal),
    );
    return { ...result, exit_code: exitCode };
  };
  if (timeoutMs <= 0 || timeoutMs > 0x7fff_ffff) return run(call.signal);
  return withDeadline(call.signal, timeoutMs, `exec in container "${id}"`, run);
};

/** `pause` is for tests. */
export async function readOutput(
  streams: Pick<ProcessStreams, "readOutput">,
  signal: AbortSignal,
  pause: typeof sleep = sleep,
): Promise<{ readonly stdout: Buffer; readonly stderr: Buffer }> {
  const kept = { stdout: new KeptOutput(), stderr: new KeptOutput() };
  let room = answerLimitBytes;
  await streams.readOutput((stream, data) => {
    const part = data.length <= room ? data : data.subarray(0, room);
    kept[stream].append(part);
    room -= part.length;
    return room > 0 ? undefined : pause(dropPauseMs, signal);
  });
  return { stdout: kept.stdout.bytes(), stderr: kept.stderr.bytes() };
}

/** Size of the first buffer. */
const smallestBytes = 4096;

/** Copies chunks into one buffer: a kept chunk would pin the whole buffer that it was read into. */
export class KeptOutput {
  #buffer = Buffer.alloc(0);
  #length = 0;

  /** Copies `data`. */
  append(data: Buffer): void {
    const length = this.#length + data.length;
    if (length > this.#buffer.length) this.#grow(length);
    data.copy(this.#buffer, this.#length);
    this.#length = length;
  }

  /** All bytes so far; shares the buffer. */
  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  /** Doubles the size, so that a byte is copied twice at most, on average. */
  #grow(leastBytes: number): void {
    const grown = Buffer.allocUnsafeSlow(Math.max(leastBytes, 2 * this.#buffer.length, smallestBytes));
    this.#buffer.copy(grown, 0, 0, this.#length);
    this.#buffer = grown;
  }
}
