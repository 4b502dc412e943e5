/** The life of an exec: creation, start, exit code; kill when its caller leaves. */
import { sleep } from "../../../lib/abort.js";
import type { Call } from "../../../lib/call.js";
import { isKind, ShimError } from "../../../lib/errors.js";
import { Backoff } from "../../../lib/sync/backoff.js";
import type { ExecOptions, ProcessStreams } from "../../ports/engine.js";
import { appearanceMs, untilAppears } from "../../recovery/lost-answer.js";
import type { Services } from "../services.js";

export interface RunningExec {
  readonly execId: string;
  readonly streams: ProcessStreams;
}

/** A call, or the session that a call opened. Its signal ends the exec. */
type Context = Pick<Call, "signal" | "log">;

/** How long an abandoned exec may take to have its process: on a loaded host the engine starts it late. */
const processAppearsMs = 60_000;
/** Limit of a kill, the look for the process included. */
const killLimitMs = 120_000;
/** How long a call waits for the kill: a caller that has set a time limit, such as a probe, needs its answer. */
const killWaitMs = 2_000;

/**
 * The exit is polled after the end of the output: a running process may have closed its streams. Most often
 * the engine knows the exit code within a millisecond.
 */
const exitPollMs = { first: 1, longest: 1_000 };

/**
 * Starts a process, passes its streams to `use`, and waits for the exit code. After an error or an abort of
 * the signal, it kills the process with all its descendants: Docker has no request for that. A kill that takes
 * long goes on after it has thrown.
 */
export async function runExec<Result>(
  containerId: string,
  options: ExecOptions,
  services: Services,
  context: Context,
  use: (exec: RunningExec) => Promise<Result>,
): Promise<{ readonly result: Result; readonly exitCode: number }> {
  const { engine } = services;
  const { signal } = context;
  const execId = await engine.createExec(containerId, options, signal);
  signal.throwIfAborted();
  let streams: ProcessStreams | undefined;
  try {
    streams = await engine.startExec(execId, options, signal);
    const result = await use({ execId, streams });
    signal.throwIfAborted();
    return { result, exitCode: await exitCodeOf(execId, services, signal) };
  } catch (error) {
    // Also after a failed start request: the engine may complete it.
    await withinWait(killExec(execId, containerId, services, context));
    throw error;
  } finally {
    streams?.close();
  }
}

async function exitCodeOf(execId: string, { engine }: Services, signal: AbortSignal): Promise<number> {
  const backoff = new Backoff(exitPollMs);
  for (;;) {
    const state = await engine.inspectExec(execId, signal);
    if (state === undefined) {
      const reason = "its container was removed, or the engine restarted";
      throw new ShimError("notFound", `read the exit code of the exec: ${reason}`);
    }
    if (!state.running && state.exitCode !== undefined) return state.exitCode;
    await sleep(backoff.next(), signal);
  }
}

/**
 * Process id of an exec; undefined when it never had one. The engine completes a start after its caller has
 * left, so this waits for an exec that has not started yet: its process must be killed, too.
 */
async function pidOf(
  execId: string,
  engine: Services["engine"],
  signal: AbortSignal,
): Promise<number | undefined> {
  const startedBy = performance.now() + appearanceMs;
  const state = await untilAppears(
    async (limited) => {
      const seen = await engine.inspectExec(execId, limited);
      if (seen === undefined) return { pid: undefined };
      // Also of an exec that has ended: its descendants may run on, and hold the output open.
      if (seen.pid !== 0) return seen;
      if (seen.running) return undefined;
      // The engine marks an exec as running as soon as it has the request to start it.
      const hasNoProcess = seen.exitCode !== undefined || performance.now() >= startedBy;
      return hasNoProcess ? { pid: undefined } : undefined;
    },
    signal,
    processAppearsMs,
  );
  return state?.pid;
}

/** Has a deadline of its own: the caller's has passed. */
function killExec(
  execId: string,
  containerId: string,
  { engine, node: { host }, abandonedRequests }: Services,
  { log }: Context,
): Promise<void> {
  const kill = async (signal: AbortSignal): Promise<void> => {
    const pid = await pidOf(execId, engine, signal);
    if (pid === undefined) return;
    const killed = await host().killProcessTree(containerId, pid, signal);
    if (killed || (await engine.inspectExec(execId, signal))?.running !== true) return;
    log.warn({ containerId, pid }, "cannot kill the exec: its process is out of reach");
  };
  const unlessGone = (error: unknown): void => {
    if (!isKind(error, "notFound")) throw ShimError.from(error).within("kill the exec");
  };
  return abandonedRequests.inBackground(
    { containerId },
    (signal) => kill(signal).catch(unlessGone),
    killLimitMs,
  );
}

function withinWait(killed: Promise<void>): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, killWaitMs);
    void killed.then(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}
