/** Reads the calls of the relay, and records them or asks a shadow. Points the link back when it has died. */
import { readFile } from "node:fs/promises";
import { messageOf } from "../lib/errors.js";
import { writeFileAtomically } from "../lib/files/atomic-file.js";
import { createLogger, type Logger } from "../lib/log.js";
import { sleep } from "../lib/abort.js";
import { connectAsked, serverName, type AskedServer } from "./answers/asked-server.js";
import { readCalls, type PipedCall } from "./relay/call-pipe.js";
import { compareAnswers } from "./answers/compare-answers.js";
import { doneExitCode } from "./relay/observer-process.js";
import { untilRelayEnds } from "./relay/keep-link.js";
import type { RelayPaths } from "./relay/relay-link.js";
import { Recorder } from "./record/recorder.js";
import { Redactor } from "./record/redact.js";
import { ShadowComparison } from "./shadow/shadow-comparison.js";
import { ReportBuilder, type ShadowReport } from "./shadow/shadow-report.js";

export interface RecordTask {
  readonly kind: "record";
  readonly paths: RelayPaths;
  readonly output: string;
  readonly startedMs: number;
  readonly durationMs: number | undefined;
  readonly limitBytes: number;
  readonly withOutput: boolean;
}

export interface ShadowTask {
  readonly kind: "shadow";
  readonly paths: RelayPaths;
  readonly endpoint: string;
  readonly report: string;
  readonly startedAt: string;
}

export type ObserverTask = RecordTask | ShadowTask;

/** Returns the exit code. The end of `input` ends this process, and signals must not. */
export async function observeCalls(task: ObserverTask, input: AsyncIterable<Buffer>): Promise<number> {
  const log = createLogger("info");
  const watched = untilRelayEnds(input, task.paths);
  return task.kind === "record" ? record(task, watched) : shadow(task, watched, log);
}

async function record(task: RecordTask, input: AsyncIterable<Buffer>): Promise<number> {
  const { output, startedMs, durationMs, limitBytes, withOutput } = task;
  const redactor = new Redactor({ withOutput });
  await using recorder = await Recorder.open(output, { redactor, startedMs, limitBytes });
  for await (const call of readCalls(input)) {
    if (await recorder.write(call)) continue;
    await recorder.end("size");
    return doneExitCode;
  }
  const elapsedMs = performance.timeOrigin + performance.now() - startedMs;
  await recorder.end(durationMs !== undefined && elapsedMs >= durationMs ? "duration" : "stopped");
  return 0;
}

const reportEveryMs = 60_000;
const retryMs = 5_000;
/** Shorter than the relay waits for this process. */
const settleMs = 5_000;

async function shadow(task: ShadowTask, input: AsyncIterable<Buffer>, log: Logger): Promise<number> {
  const stop = new AbortController();
  const report = await continuedReport(task);
  report.starts += 1;
  report.complete = false;
  const builder = new ReportBuilder(report);
  let comparison: ShadowComparison | undefined;
  let saving = Promise.resolve();
  const save = (): Promise<void> => {
    // One after the other: the last one counts.
    saving = saving.then(async () => {
      report.updatedAt = now();
      await writeReport(task.report, report).catch((error: unknown) => {
        log.error({ err: messageOf(error) }, "the report was not written");
      });
    });
    return saving;
  };
  void save();
  const connecting = connectBoth(task, stop.signal, log)
    .then(([primary, own]) => {
      report.primary = { socket: task.paths.primary, server: serverName(primary) };
      report.shadow = { socket: task.endpoint, server: serverName(own) };
      comparison = new ShadowComparison({
        askPrimary: (...question) => primary.ask(...question),
        askShadow: (...question) => own.ask(...question),
        compare: compareAnswers,
        compareOptions: { servers: { left: primary.kind, right: own.kind } },
        report: builder,
        redactor: new Redactor({ keepDefaults: true }),
        now,
      });
      return save();
    })
    .catch((error: unknown) => {
      if (!stop.signal.aborted) throw error;
    });
  const timer = setInterval(() => void save(), reportEveryMs);
  try {
    for await (const call of readCalls(input)) offer(comparison, call, report);
    // The last calls count, too, unless a server hangs.
    await Promise.race([comparison?.settled(), sleep(settleMs, stop.signal).catch(() => undefined)]);
    report.complete = true;
    return 0;
  } finally {
    clearInterval(timer);
    stop.abort();
    await connecting;
    await comparison?.stop();
    await save();
  }
}

function offer(comparison: ShadowComparison | undefined, call: PipedCall, report: ShadowReport): void {
  if (comparison !== undefined) {
    comparison.offer(call);
    return;
  }
  report.unanswered.count += 1;
  report.unanswered.last = `${now()} asked before both servers had answered this process`;
}

async function connectBoth(
  { paths, endpoint }: ShadowTask,
  signal: AbortSignal,
  log: Logger,
): Promise<readonly [AskedServer, AskedServer]> {
  const one = async (socket: string): Promise<AskedServer> => {
    for (;;) {
      try {
        return await connectAsked(socket, signal);
      } catch (error) {
        signal.throwIfAborted();
        log.warn({ err: messageOf(error) }, "a server does not answer, nothing is compared before it does");
        await sleep(retryMs, signal);
      }
    }
  };
  return Promise.all([one(paths.primary), one(endpoint)]);
}

export function newReport({ paths, endpoint, startedAt }: Omit<ShadowTask, "kind" | "report">): ShadowReport {
  return {
    format: "dockershim-shadow-report",
    version: 1,
    startedAt,
    updatedAt: startedAt,
    complete: false,
    primary: { socket: paths.primary, server: "" },
    shadow: { socket: endpoint, server: "" },
    rpcs: {},
    differences: [],
    moreKinds: 0,
    unanswered: { count: 0, last: "" },
    unobserved: { dropped: 0, givenUp: 0 },
    starts: 0,
  };
}

/** After the death of this process the next one goes on with the counts of the last report. */
async function continuedReport(task: ShadowTask): Promise<ShadowReport> {
  try {
    // This program wrote it, if the start is the same.
    const report = JSON.parse(await readFile(task.report, "utf8")) as ShadowReport;
    if (report.startedAt === task.startedAt) return report;
  } catch {
    // There is no report, or no readable one: it begins anew.
  }
  return newReport(task);
}

export async function writeReport(path: string, report: ShadowReport): Promise<void> {
  await writeFileAtomically(path, `${JSON.stringify(report, null, 2)}\n`, {
    mode: 0o600,
    temporaryPrefix: ".dockershim-",
    flush: "never",
  });
}

function now(): string {
  return new Date().toISOString();
}
