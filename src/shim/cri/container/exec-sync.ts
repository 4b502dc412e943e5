import { sleep, withDeadline } from "../../lib/abort.js";
import type { Call } from "../../lib/call.js";
import type { Answer, ExecSyncRequest, ExecSyncResponse } from "../../domain/cri.js";
import type { ExecOptions, ProcessStreams } from "../../ports/engine.js";
import { type ExecDeps, runExec } from "./exec-process.js";
import { requireRunningContainer } from "../find-by-id.js";
import { KeptOutput } from "./kept-output.js";
import type { Services } from "../services.js";

type Deps = ExecDeps & Pick<Services, "link" | "model" | "sync">;

/** What is kept of each stream; the rest is read and dropped, so that the process can end. */
const outputLimitBytes = 16 * 1024 * 1024;
/** Of both streams together: the answer must fit into a message of 16 MiB. */
const answerLimitBytes = outputLimitBytes - 64 * 1024;
/**
 * Between two chunks (of 64 KiB mostly) of what is dropped. A process that writes without end, as a probe with `yes`, waits
 * on its full pipe meanwhile; it would take all of this program's time.
 */
const dropPauseMs = 20;

/**
 * Runs a command to its end. A non-zero exit is a normal answer. When the time limit passes or the caller leaves, the
 * process is killed with everything that it started: neither Docker nor its API does that.
 */
export async function execSync(
  request: ExecSyncRequest,
  deps: Deps,
  call: Call,
): Promise<Answer<ExecSyncResponse>> {
  await deps.link.live(call.signal);
  const { id } = await requireRunningContainer(request.container_id, deps, call.signal);
  const timeoutMs = Number(request.timeout) * 1000;
  const options: ExecOptions = { command: request.cmd, tty: false, stdin: false, stdout: true, stderr: true };
  const run = async (signal: AbortSignal): Promise<Answer<ExecSyncResponse>> => {
    const context = { ...call, signal };
    const { result, exitCode } = await runExec(id, options, deps, context, ({ streams }) =>
      readOutput(streams, signal),
    );
    return { ...result, exit_code: exitCode };
  };
  if (timeoutMs <= 0 || timeoutMs > 0x7fff_ffff) return run(call.signal);
  return withDeadline(call.signal, timeoutMs, `exec in container "${id}"`, run);
}

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
