/** `dockershim record` and `dockershim shadow`: a relay between a CRI server and its clients. */
import { access, constants, readFile, realpath, rm } from "node:fs/promises";
import { arch, cpus, release, totalmem } from "node:os";
import { dirname, resolve } from "node:path";
import { connectAsked } from "../answers/asked-server.js";
import { observeCalls, type ObserverTask, type RecordTask, type ShadowTask } from "../observe-calls.js";
import {
  startObservedRelay,
  type ObservedRelay,
  type ObservedRelayOptions,
} from "../relay/observed-relay.js";
import { createRecording } from "../record/recorder.js";
import { recordingFormat, recordingVersion, type RecordingHeader } from "../record/recording.js";
import { checkLink, refuseLoop, type RelayPaths, relayPaths } from "../relay/relay-link.js";
import { ShimError } from "../../lib/errors.js";
import { hasCode } from "../../lib/files/file-errors.js";
import { createLogger, type Logger } from "../../lib/log.js";
import type { ProcessIo } from "../../cli/process-io.js";

type Sockets = Pick<RelayPaths, "primary" | "listen">;
export type RecordOptions = Sockets & Omit<RecordTask, "kind" | "paths" | "startedMs">;
export type ShadowOptions = Sockets & Pick<ShadowTask, "endpoint" | "report">;

type RelayIo = Pick<ProcessIo, "writeOut" | "signal" | "self">;

export async function runRecord(options: RecordOptions, io: RelayIo): Promise<number> {
  const { primary, listen, output, durationMs, limitBytes, withOutput } = options;
  const paths = relayPaths(listen, primary);
  await refuseLoop("--primary", primary, paths);
  await checkLink(paths);
  const server = await connectAsked(primary, io.signal);
  const version = await server.ask("Version", {}, io.signal);
  server.close();
  const startedMs = performance.timeOrigin + performance.now();
  const task: RecordTask = { kind: "record", paths, output, startedMs, durationMs, limitBytes, withOutput };
  await createRecording(output, headerOf(version));
  const log = createLogger("info");
  let full = (): void => undefined;
  const done = new Promise<void>((ended) => {
    full = ended;
  });
  const started = startObservedRelay({ ...commandsOf(io, task), paths, log, onDone: full });
  // When the relay does not start, nothing is left of what was made for it.
  const relay = await started.catch(async (error: unknown) => {
    await rm(output, { force: true });
    throw error;
  });
  io.writeOut(`recording the calls of ${primary} into ${output}\n${pointer(listen)}`);
  await endOf(io.signal, durationMs, done);
  if (!(await finish(relay, log)))
    throw new ShimError(
      "unknown",
      `record into ${JSON.stringify(output)}: the recorder failed, see the log; use the file up to its last whole line`,
    );
  io.writeOut(`recorded into ${output}; ${listen} leads to ${primary}\n`);
  return 0;
}

export async function runShadow(options: ShadowOptions, io: RelayIo): Promise<number> {
  const { primary, listen, endpoint, report } = options;
  const paths = relayPaths(listen, primary);
  await refuseLoop("--primary", primary, paths);
  await refuseLoop("--endpoint", endpoint, paths);
  if (await isSameFile(endpoint, primary))
    throw new ShimError(
      "invalid",
      `flag "--endpoint": ${JSON.stringify(endpoint)} is the socket of --primary; ` +
        "name that of the second server",
    );
  await checkLink(paths);
  await checkReport(report);
  for (const socket of [primary, endpoint]) (await connectAsked(socket, io.signal)).close();
  const task: ShadowTask = { kind: "shadow", paths, endpoint, report, startedAt: new Date().toISOString() };
  const log = createLogger("info");
  const relay = await startObservedRelay({ ...commandsOf(io, task), paths, log });
  io.writeOut(`comparing ${endpoint} with ${primary}; the report is ${report}\n${pointer(listen)}`);
  await endOf(io.signal, undefined, new Promise(() => undefined));
  if (!(await finish(relay, log)))
    throw new ShimError(
      "unknown",
      `shadow: the observer failed, see the log; the report ${JSON.stringify(report)} is that of the last minute`,
    );
  io.writeOut(`${listen} leads to ${primary}; read the report with: dockershim shadow report ${report}\n`);
  return 0;
}

/** The process that observes the calls of a relay; `task` is JSON. */
export async function runObserveCalls(task: string, io: Pick<ProcessIo, "stdin">): Promise<number> {
  // The relay of this program wrote it.
  return observeCalls(JSON.parse(task) as ObserverTask, io.stdin);
}

/** False for a socket that is missing: a later check reports it. */
async function isSameFile(left: string, right: string): Promise<boolean> {
  if (left === right) return true;
  const [first, second] = await Promise.all([left, right].map((path) => realpath(path).catch(() => "")));
  return first !== "" && first === second;
}

function commandsOf(
  { self }: RelayIo,
  task: ObserverTask,
): Pick<ObservedRelayOptions, "command" | "guardCommand"> {
  return {
    command: [...self, "observe-calls", JSON.stringify(task)],
    guardCommand: [...self, "keep-link", JSON.stringify(task.paths)],
  };
}

function pointer(listen: string): string {
  return `clients dial unix://${listen}; Ctrl-C or SIGTERM points them back at the server itself\n`;
}

function headerOf(version: object): RecordingHeader {
  return {
    format: recordingFormat,
    version: recordingVersion,
    startedAt: new Date().toISOString(),
    server: version,
    node: { kernel: release(), architecture: arch(), cpus: cpus().length, memoryBytes: totalmem() },
  };
}

/** Resolves at the first of: the signal, the end of the duration, `done`. */
async function endOf(
  signal: AbortSignal,
  durationMs: number | undefined,
  done: Promise<void>,
): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await new Promise<void>((ended) => {
    const end = (): void => ended();
    if (signal.aborted) end();
    signal.addEventListener("abort", end, { once: true });
    // Longer than timers can be, 24.8 days, is for ever.
    if (durationMs !== undefined && durationMs < 2 ** 31) timer = setTimeout(end, durationMs);
    void done.then(end);
  });
  clearTimeout(timer);
}

/** Whether the observer has worked on all that it got. */
async function finish(relay: ObservedRelay, log: Logger): Promise<boolean> {
  const isWhole = await relay.stop();
  log.info({ ...relay.relay.counts, ...relay.observer.counts }, "the relay has ended");
  return isWhole;
}

/** A report of an earlier shadow may be replaced, nothing else. It stays when the relay does not start. */
async function checkReport(path: string): Promise<void> {
  const directory = dirname(resolve(path));
  await access(directory, constants.W_OK).catch((error: unknown) => {
    throw ShimError.from(error, "precondition").within(`write report into ${JSON.stringify(directory)}`);
  });
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if (hasCode(error, "ENOENT")) return;
    throw ShimError.from(error, "precondition").within(`write report ${JSON.stringify(path)}`);
  }
  if (/^\s*\{\s*"format": "dockershim-shadow-report"/.test(text)) return;
  throw new ShimError(
    "conflict",
    `write report ${JSON.stringify(path)}: the file exists and is not a report; choose another name`,
  );
}
