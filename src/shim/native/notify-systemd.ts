/** What this process tells systemd: `Type=notify` and `WatchdogSec=` of its unit. */
import { isKind, messageOf, ShimError } from "../../lib/errors.js";
import type { Environment } from "../../lib/linux/systemd.js";
import type { Logger } from "../../lib/log.js";
import { runProgram, type ProgramExit } from "./run-program.js";
import { startAsChild, type ProgramRequest, type StartProgram } from "./start-program.js";

export interface NotifyOptions {
  readonly environment: Environment;
  readonly log: Pick<Logger, "warn">;
  /** Performs a verb of the helper. */
  readonly startVerb: StartProgram;
  /** What starts `systemd-notify` where there is no helper. */
  readonly startProgram?: StartProgram;
}

const timeoutMs = 5_000;
const limits = { input: "", stdoutBytes: 1024, stderrBytes: 1024, graceMs: 1_000, deathMs: 1_000 };

/**
 * Sends lines such as `READY=1`. Does nothing without NOTIFY_SOCKET; a failure is logged and never thrown, because the
 * service works without.
 */
export async function notifySystemd(assignments: readonly string[], options: NotifyOptions): Promise<void> {
  const { environment, log, startVerb, startProgram = startAsChild } = options;
  const socket = environment["NOTIFY_SOCKET"];
  if (socket === undefined || socket === "") return;
  // A line break in a text would begin another assignment.
  const lines = assignments.map((text) => text.replace(/\s+/g, " "));
  const run = (start: StartProgram, request: ProgramRequest): Promise<ProgramExit> =>
    runProgram(start, request, { ...limits, signal: AbortSignal.timeout(timeoutMs) });
  const ofHelper = {
    program: "notify",
    words: [socket, String(process.pid), lines.join("\n")],
    environment: {},
  };
  // As the helper, it sends in the name of its parent.
  const ofSystemd = {
    program: "systemd-notify",
    words: lines,
    environment: { PATH: environment["PATH"], NOTIFY_SOCKET: socket },
  };
  try {
    const { exitCode, stderr } = await run(startVerb, ofHelper).catch((error: unknown) => {
      if (!isKind(error, "unsupported")) throw error;
      return run(startProgram, ofSystemd);
    });
    if (exitCode !== 0) throw new ShimError("unknown", stderr.trim() || `exit code ${String(exitCode)}`);
  } catch (error) {
    log.warn({ state: lines[0], err: messageOf(error) }, "systemd was not notified");
  }
}

/**
 * Serves `WatchdogSec=` while `isMoving`: systemd restarts the service when twice nothing was sent. Does nothing where the unit
 * has none.
 */
export function serveWatchdog(isMoving: () => boolean, options: NotifyOptions): Disposable {
  const { WATCHDOG_USEC: microseconds = "", WATCHDOG_PID: pid } = options.environment;
  // A child of the service may have inherited them.
  const isServed = /^[1-9]\d{0,15}$/.test(microseconds) && (pid === undefined || pid === String(process.pid));
  let timer: NodeJS.Timeout | undefined;
  if (isServed) {
    const beat = (): void => {
      if (isMoving()) void notifySystemd(["WATCHDOG=1"], options);
    };
    timer = setInterval(beat, Math.min(Number(microseconds) / 2_000, 2 ** 31 - 1));
    timer.unref();
  }
  return {
    [Symbol.dispose]: () => {
      clearInterval(timer);
    },
  };
}
