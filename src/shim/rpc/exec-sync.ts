import { sleep, withDeadline } from "../base/abort.js";
import type { Call } from "../base/call.js";
import { isKind, messageOf, ShimError } from "../base/errors.js";
import type { Answer, ExecSyncRequest, ExecSyncResponse } from "../domain/cri.js";
import type { ExecOptions, ProcessStreams } from "../ports/engine.js";
import { requireReadContainer } from "./find-by-id.js";
import type { Services } from "./services.js";

type Deps = Pick<Services, "engine" | "link" | "model" | "sync" | "host" | "settings">;

/** What is kept of each stream; the rest is read and dropped, so that the process never blocks on a full pipe. */
const outputLimitBytes = 16 * 1024 * 1024;
/** Of both streams together: the answer must fit into a message of 16 MiB. */
const answerLimitBytes = outputLimitBytes - 64 * 1024;
/** Without the process's exit the end of its output proves nothing: it may have closed its streams. */
const exitPollMs = 50;
/** A process that closed its output may go on for hours. */
const longestPollMs = 1_000;

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
  const { id, snapshot } = await requireReadContainer(request.container_id, deps, call.signal);
  if (!snapshot.state.running)
    throw new ShimError("precondition", `container not running (${id})`, { containerId: id });
  const timeoutMs = Number(request.timeout) * 1000;
  const options: ExecOptions = { command: request.cmd, tty: false, stdin: false, stdout: true, stderr: true };
  const run = (signal: AbortSignal): Promise<Answer<ExecSyncResponse>> =>
    runToEnd(id, options, deps, signal, call);
  if (timeoutMs <= 0 || timeoutMs > 0x7fff_ffff) return run(call.signal);
  return withDeadline(call.signal, timeoutMs, `exec in container "${id}"`, run);
}

async function runToEnd(
  id: string,
  options: ExecOptions,
  deps: Deps,
  signal: AbortSignal,
  call: Call,
): Promise<Answer<ExecSyncResponse>> {
  const { engine } = deps;
  const execId = await engine.createExec(id, options, signal);
  let streams: ProcessStreams | undefined;
  try {
    streams = await engine.startExec(execId, options, signal);
    const output = await readOutput(streams, signal);
    return { ...output, exit_code: await exitCodeOf(execId, deps, signal) };
  } catch (error) {
    // Whatever went wrong after the start was asked for: nobody hears the process any more.
    await killExec(execId, id, deps, call);
    throw error;
  } finally {
    streams?.close();
  }
}

async function readOutput(
  streams: ProcessStreams,
  signal: AbortSignal,
): Promise<{ readonly stdout: Buffer; readonly stderr: Buffer }> {
  const kept = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  let room = answerLimitBytes;
  for await (const { stream, data } of streams.output) {
    signal.throwIfAborted();
    const part = data.length <= room ? data : data.subarray(0, room);
    if (part.length > 0) kept[stream].push(part);
    room -= part.length;
  }
  signal.throwIfAborted();
  return { stdout: Buffer.concat(kept.stdout), stderr: Buffer.concat(kept.stderr) };
}

async function exitCodeOf(
  execId: string,
  { engine }: Pick<Deps, "engine">,
  signal: AbortSignal,
): Promise<number> {
  for (let pauseMs = exitPollMs; ; pauseMs = Math.min(pauseMs * 2, longestPollMs)) {
    const state = await engine.inspectExec(execId, signal);
    if (state === undefined)
      throw new ShimError("unknown", "the engine lost the exec before its exit code was read");
    if (!state.running && state.exitCode !== undefined) return state.exitCode;
    await sleep(pauseMs, signal);
  }
}

/** How long a process may take to appear after its start was asked for. */
const appearanceMs = 5_000;

/**
 * Process id of an exec; undefined when it never had one. The engine goes on with a start that its caller gave up,
 * so one that has not begun yet is waited for, or it would begin with nobody to end it.
 */
async function pidOf(
  execId: string,
  engine: Services["engine"],
  signal: AbortSignal,
): Promise<number | undefined> {
  for (const giveUpAt = performance.now() + appearanceMs; performance.now() < giveUpAt;) {
    const state = await engine.inspectExec(execId, signal);
    // Also of one that has ended: what it started may go on, and hold the output open.
    if (state === undefined || state.pid !== 0) return state?.pid;
    if (!state.running && state.exitCode !== undefined) return undefined;
    await sleep(exitPollMs, signal);
  }
  return undefined;
}

/** Under a deadline of its own: the one of the call has passed. */
async function killExec(execId: string, containerId: string, deps: Deps, call: Call): Promise<void> {
  const { engine, host, settings } = deps;
  try {
    await withDeadline(undefined, settings.cleanUpTimeoutMs, "kill exec", async (signal) => {
      const pid = await pidOf(execId, engine, signal);
      if (pid === undefined) return;
      const killed = await host().killProcessTree(containerId, pid, signal);
      if (killed || (await engine.inspectExec(execId, signal))?.running !== true) return;
      call.log.warn({ containerId, pid }, "cannot kill the exec: its process is out of reach");
    });
  } catch (error) {
    if (isKind(error, "notFound")) return;
    call.log.error({ containerId, err: messageOf(error) }, "cannot kill the exec");
  }
}
