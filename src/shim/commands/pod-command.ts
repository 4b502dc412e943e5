/** `dockershim pod`: runs what the command line asked for. */
import { lstat } from "node:fs/promises";
import { posix } from "node:path";
import { PassThrough, type Readable, type Writable } from "node:stream";
import { ReadStream, WriteStream } from "node:tty";
import { connect, type ConnectedClient } from "../../play/client.js";
import { nodeFiles } from "../../play/containers/files.js";
import { defaultDirectories, logDirectory, logPath } from "../../play/containers/pod-files.js";
import { dialFromHere } from "../../play/dial.js";
import { packCommand, packInto, unpackCommand, unpackFrom, uploadPlace } from "../../play/pod/copy-files.js";
import { describePod } from "../../play/pod/describe-pod.js";
import {
  chooseContainer,
  containerName,
  findPod,
  findPods,
  type FoundPod,
  newestAttempts,
} from "../../play/pod/find-pod.js";
import { keptContainers } from "../../play/pod/kept-containers.js";
import { forwardPorts } from "../../play/pod/forward-ports.js";
import { eventLine, historyOf } from "../../play/pod/pod-events.js";
import { renderPods, summarize } from "../../play/pod/pod-summary.js";
import { renderUsage, usageOf } from "../../play/pod/pod-usage.js";
import { readLogs } from "../../play/pod/read-logs.js";
import { rawTerminal, sizesOf } from "../../play/pod/terminal.js";
import { makeHandlers } from "../../play/handlers/handlers.js";
import { systemClock } from "../../play/kubelet/clock.js";
import { playDown } from "../../play/play.js";
import { PlayStore, workloadName } from "../../play/play-store.js";
import { drained } from "../../play/view/drained.js";
import { runCommand } from "../../play/streams/run-command.js";
import { ContainerState, type ContainerStatus } from "../domain/cri.js";
import { sleep } from "../lib/abort.js";
import { isKind, messageOf, ShimError } from "../lib/errors.js";
import { shownText } from "../lib/shown-text.js";
import type { PodRequest } from "./pod-commands.js";

export interface PodIo {
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable;
  /** Ends the command. */
  readonly signal: AbortSignal;
}

type RequestOf<Verb extends PodRequest["verb"]> = Extract<PodRequest, { readonly verb: Verb }>;

interface Session extends PodIo {
  readonly endpoint: string;
  readonly client: ConnectedClient;
  readonly print: (text: string) => void;
  readonly report: (line: string) => void;
}

/** The exit code: of exec, that of the command. Errors are printed, not thrown. */
export async function runPod(request: PodRequest, endpoint: string, io: PodIo): Promise<number> {
  const report = (line: string): void => {
    io.stderr.write(`${line}\n`);
  };
  const client = connect(endpoint);
  try {
    const print = (text: string): void => {
      io.stdout.write(text);
    };
    return await run(request, { ...io, endpoint, client, print, report });
  } catch (error) {
    // Following ends by Ctrl-C.
    if (io.signal.aborted && "follow" in request) return 0;
    if (io.signal.aborted) return 130;
    report(`dockershim pod ${request.verb}: ${messageOf(error).replaceAll(/\s*\n\s*/g, " ")}`);
    return 1;
  } finally {
    client.close();
  }
}

function run(request: PodRequest, session: Session): Promise<number> {
  switch (request.verb) {
    case "ps":
      return ps(request, session);
    case "logs":
      return logs(request, session);
    case "exec":
    case "attach":
      return command(request, session);
    case "port-forward":
      return portForward(request, session);
    case "cp":
      return request.direction === "from" ? copyFrom(request, session) : copyTo(request, session);
    case "describe":
      return describe(request, session);
    case "events":
      return events(request, session);
    case "top":
      return top(request, session);
    case "down":
      return down(request, session);
  }
}

async function ps(
  { namespace, output }: RequestOf<"ps">,
  { client, print, signal }: Session,
): Promise<number> {
  const pods = await findPods(client, namespace, signal);
  const summaries = await Promise.all(
    pods.map(async (pod) => {
      try {
        return summarize(pod, await client.podSandboxStatus(pod.sandbox.id, signal));
      } catch (error) {
        if (isKind(error, "notFound")) return summarize(pod, undefined); // Removed since it was listed.
        throw error;
      }
    }),
  );
  print(await renderPods(summaries, output, Date.now()));
  return 0;
}

async function logs(request: RequestOf<"logs">, session: Session): Promise<number> {
  const { client, print, stdout, signal } = session;
  let draining: Promise<void> | undefined;
  const pace = async (): Promise<void> => {
    // One for all containers: a stream warns of many listeners.
    await (draining ??= drained(stdout, signal));
    draining = undefined;
    signal.throwIfAborted();
  };
  const pod = await findPod(client, request.pod, signal);
  const chosen = request.all ? newestAttempts(pod) : [chooseContainer(pod, request.container)];
  const { follow, tail, sinceMs, timestamps } = request;
  const read = async (status: ContainerStatus): Promise<void> => {
    const isRunning = async (): Promise<boolean> => {
      if (request.previous) return false;
      try {
        return (await client.containerStatus(status.id, signal)).state !== ContainerState.CONTAINER_EXITED;
      } catch (error) {
        if (isKind(error, "notFound")) return false;
        throw error;
      }
    };
    const prefix = request.prefix ? `[pod/${shownText(pod.name)}/${shownText(containerName(status))}] ` : "";
    const since = sinceMs === undefined ? undefined : Date.now() - sinceMs;
    const path = logFile(pod, status, request.previous);
    const options = { follow, tail, sinceMs: since, timestamps, prefix };
    await readLogs({ path, isRunning }, options, nodeFiles, print, signal, pace);
  };
  // Followed side by side; else one after the other.
  if (follow) await Promise.all(chosen.map(read));
  else for (const status of chosen) await read(status);
  return 0;
}

function logFile(pod: FoundPod, status: ContainerStatus, previous: boolean): string {
  const { name, attempt } = { name: containerName(status), attempt: status.metadata?.attempt ?? 0 };
  const { namespace, name: podName, sandbox } = pod;
  const key = { namespace, name: podName, uid: sandbox.metadata?.uid ?? "" };
  const path = status.log_path || posix.join(logDirectory(defaultDirectories, key), logPath(name, attempt));
  if (!previous) return path;
  if (attempt === 0) throw new ShimError("notFound", `container "${shownText(name)}": it was not restarted`);
  const before = pod.containers.find(
    (each) => containerName(each) === name && each.metadata?.attempt === attempt - 1,
  );
  return before?.log_path || posix.join(posix.dirname(path), `${attempt - 1}.log`);
}

async function command(request: RequestOf<"exec" | "attach">, session: Session): Promise<number> {
  const { client, stdin, stdout, stderr, signal, report } = session;
  const pod = await findPod(client, request.pod, signal);
  const status = chooseContainer(pod, request.container);
  const terminal =
    stdin instanceof ReadStream && stdout instanceof WriteStream ? { stdin, stdout } : undefined;
  const tty = request.tty && request.stdin && terminal !== undefined;
  if (request.tty && !tty)
    report("no terminal is used: standard input or output is none, or --stdin is missing");
  const streams = { container_id: status.id, tty, stdin: request.stdin, stdout: true, stderr: !tty };
  const url =
    request.verb === "exec"
      ? await client.execUrl({ ...streams, cmd: request.command }, signal)
      : await client.attachUrl(streams, signal);
  using _ = tty ? rawTerminal(terminal.stdin) : undefined;
  try {
    return await runCommand(
      { url, tty },
      {
        stdout,
        ...(request.stdin ? { stdin } : {}),
        ...(tty ? { sizes: sizesOf(terminal.stdout) } : { stderr }),
      },
      dialFromHere,
      signal,
    );
  } finally {
    // Else the process waits for more input.
    if (request.stdin) stdin.destroy();
  }
}

async function portForward(request: RequestOf<"port-forward">, session: Session): Promise<number> {
  const { client, signal, report } = session;
  const { sandbox } = await findPod(client, request.pod, signal);
  const url = (port: number): Promise<string> => client.portForwardUrl(sandbox.id, [port], signal);
  await forwardPorts(request.pairs, request.addresses, { dial: dialFromHere, url, report }, signal);
  return 0;
}

/** Runs `cmd` without a terminal. What it says on standard error is reported, escaped. */
async function runQuietly(
  id: string,
  cmd: readonly string[],
  streams: { readonly stdin?: Readable; readonly stdout?: PassThrough },
  { client, signal, report }: Session,
): Promise<number> {
  const stderr = new PassThrough();
  const output = { stdout: streams.stdout !== undefined, stderr: true, stdin: streams.stdin !== undefined };
  const url = await client.execUrl({ container_id: id, cmd, tty: false, ...output }, signal);
  let said = "";
  stderr.on("data", (chunk: Buffer) => {
    if (said.length < 4096) said += chunk.toString();
  });
  try {
    return await runCommand({ url, tty: false }, { ...streams, stderr }, dialFromHere, signal);
  } finally {
    for (const line of said.split("\n").filter((text) => text !== "")) report(shownText(line));
  }
}

async function copyFrom(request: RequestOf<"cp">, session: Session): Promise<number> {
  const status = chooseContainer(
    await findPod(session.client, request.pod, session.signal),
    request.container,
  );
  const archive = new PassThrough();
  const written = unpackFrom(archive, request.remote, request.local, session.report);
  const packed = runQuietly(status.id, packCommand(request.remote), { stdout: archive }, session).then(
    (code) => {
      archive.end();
      return code;
    },
    (error: unknown) => {
      archive.destroy(ShimError.from(error));
      throw error;
    },
  );
  const [code, files] = await Promise.all([packed, written]);
  if (code === 0 && files > 0) return 0;
  if (code === 0) session.report("no file was copied");
  return code === 0 ? 0 : 1;
}

async function copyTo(request: RequestOf<"cp">, session: Session): Promise<number> {
  const { client, signal } = session;
  await lstat(request.local); // So that a missing file is the first error.
  const status = chooseContainer(await findPod(client, request.pod, signal), request.container);
  const { exit_code: isDirectory } = await client.execSync(
    status.id,
    ["test", "-d", request.remote],
    60,
    signal,
  );
  const { directory, name } = uploadPlace(request.local, request.remote, { isDirectory: isDirectory === 0 });
  const archive = packInto(request.local, name, session.report);
  let failure: unknown;
  archive.once("error", (error) => (failure = error));
  const code = await runQuietly(status.id, unpackCommand(directory), { stdin: archive }, session);
  if (failure !== undefined) throw ShimError.from(failure);
  return code === 0 ? 0 : 1;
}

async function describe(
  { pod: name }: RequestOf<"describe">,
  { client, print, report, signal }: Session,
): Promise<number> {
  const pod = await findPod(client, name, signal);
  const status = await client.podSandboxStatus(pod.sandbox.id, signal);
  const manifest = pod.isPlayed
    ? await keptContainers(status, { files: nodeFiles, directories: defaultDirectories, report })
    : undefined;
  print(describePod({ pod, status, ...(manifest === undefined ? {} : { manifest }) }, Date.now()));
  return 0;
}

async function events(request: RequestOf<"events">, { client, print, signal }: Session): Promise<number> {
  const { pod: wanted, namespace, follow } = request;
  const pods =
    wanted === undefined
      ? await findPods(client, namespace, signal)
      : [await findPod(client, wanted, signal)];
  const past = pods.flatMap((pod) =>
    historyOf(pod).map((event) => ({ ...event, pod: `${pod.namespace}/${pod.name}` })),
  );
  past.sort((left, right) => (left.at < right.at ? -1 : left.at > right.at ? 1 : 0));
  const show = ({ at, pod, what }: (typeof past)[number]): void => {
    print(`${at}  ${shownText(pod)}  ${shownText(what)}\n`);
  };
  past.forEach(show);
  if (!follow) return 0;
  const prefix = `${wanted?.namespace ?? namespace ?? ""}/`;
  for await (const event of client.containerEvents(signal)) {
    const line = eventLine(event);
    const isWanted =
      wanted === undefined
        ? namespace === undefined || line.pod.startsWith(prefix)
        : line.pod === `${prefix}${wanted.name}`;
    if (isWanted) show(line);
  }
  throw new ShimError("unavailable", "the CRI server has ended the events");
}

/** Between two looks at servers that tell only the CPU time that was used. */
const rateMs = 1000;

async function top(request: RequestOf<"top">, { client, print, signal }: Session): Promise<number> {
  const pods =
    request.pod === undefined
      ? await findPods(client, request.namespace, signal)
      : [await findPod(client, request.pod, signal)];
  const running = pods.filter(({ isReady }) => isReady);
  const look = () => Promise.all(running.map(({ sandbox }) => client.listContainerStats(sandbox.id, signal)));
  const before = new Map((await look()).flat().map((stats) => [stats.attributes?.id, stats]));
  await sleep(rateMs, signal);
  const after = await look();
  const usage = running.map(({ namespace, name }, index) => ({
    ...{ namespace, name },
    containers: (after[index] ?? []).map((stats) => ({
      name: stats.attributes?.metadata?.name ?? "",
      ...usageOf(before.get(stats.attributes?.id), stats),
    })),
  }));
  print(renderUsage(usage, request));
  return 0;
}

async function down(
  { pods }: RequestOf<"down">,
  { endpoint, client, report, signal }: Session,
): Promise<number> {
  const found: FoundPod[] = [];
  for (const name of pods) found.push(await findPod(client, name, signal));
  const foreign = found.find(({ isPlayed }) => !isPlayed);
  if (foreign !== undefined)
    throw new ShimError(
      "precondition",
      `pod "${foreign.namespace}/${foreign.name}": play did not make it, and removes nothing that it did not make`,
    );
  const keys = found.map(({ namespace, name, sandbox }) => ({
    source: "",
    key: { namespace, name, uid: sandbox.metadata?.uid ?? "" },
  }));
  // The supervisor would make them again after a reboot. Those of a Deployment belong to it.
  const names = new Set(keys.map(({ key }) => workloadName({ ...key, kind: "Pod" })));
  await new PlayStore(posix.join(defaultDirectories.state, "plays.d"), endpoint).release(names, report);
  const handlers = makeHandlers({ client, dial: dialFromHere });
  const deps = {
    ...{ client, files: nodeFiles, directories: defaultDirectories, report },
    ...{ handlers, clock: systemClock },
  };
  return (await playDown(keys, deps, signal)).failed > 0 ? 1 : 0;
}
