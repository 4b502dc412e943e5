/** `dockershim pod`: runs what the command line asked for. */
import { posix } from "node:path";
import { PlayStore } from "../store/play-store.js";
import { connect } from "../cri/client.js";
import { type Directories, defaultDirectories } from "../pod-config/pod-paths.js";
import { describePod } from "../pod-commands/describe-pod.js";
import { findPods } from "../pod-commands/find-pod.js";
import { renderUsage, usageOf } from "../pod-commands/pod-usage.js";
import { sleep } from "../../lib/abort.js";
import { messageOf } from "../../lib/errors.js";
import { recordDirectories } from "./open-engine-access.js";
import {
  keptOf,
  type PodContext,
  type PodIo,
  type PodOptions,
  type PodRequest,
  type RequestOf,
} from "./pod-context.js";
import { removeNamed } from "./pod-down.js";
import { podEvents } from "./pod-events.js";
import { listPods, waitForPods } from "./pod-list.js";
import { printLogs } from "./pod-logs.js";
import { resolveServices } from "./pod-services.js";
import { copyFrom, copyTo, portForward, streamCommand } from "./pod-streams.js";

/** The exit code: of exec, that of the command. Errors are printed, not thrown. */
export async function runPod({ request, endpoint }: PodOptions, io: PodIo): Promise<number> {
  const { commandNames = (text: string): string => text } = io;
  const report = (line: string): void => {
    io.stderr.write(`${commandNames(line)}\n`);
  };
  const client = connect(endpoint);
  try {
    const print = (text: string): void => {
      io.stdout.write(text);
    };
    let directories: Promise<Directories> | undefined;
    const records = (): Promise<Directories> =>
      (directories ??= recordDirectories(client, { endpoint, directories: defaultDirectories }, io.signal));
    const context = { ...io, endpoint, client, print, report, records };
    const store = new PlayStore(posix.join(defaultDirectories.state, "plays.d"), endpoint);
    return await run(await resolveServices(request, { store, report }), context);
  } catch (error) {
    // Following ends by Ctrl-C.
    const goesOn = "follow" in request || ("watch" in request && request.watch);
    if (io.signal.aborted) return goesOn ? 0 : 130;
    report(`dockershim pod ${request.verb}: ${messageOf(error).replaceAll(/\s*\n\s*/g, " ")}`);
    return 1;
  } finally {
    client.close();
  }
}

function run(request: PodRequest, context: PodContext): Promise<number> {
  switch (request.verb) {
    case "ps":
      return listPods(request, context);
    case "logs":
      return printLogs(request, context);
    case "exec":
    case "attach":
      return streamCommand(request, context);
    case "port-forward":
      return portForward(request, context);
    case "cp":
      return request.direction === "from" ? copyFrom(request, context) : copyTo(request, context);
    case "describe":
      return describe(request, context);
    case "events":
      return podEvents(request, context);
    case "top":
      return top(request, context);
    case "wait":
      return waitForPods(request, context);
    case "down":
      return removeNamed(request, context);
  }
}

async function describe({ selection }: RequestOf<"describe">, context: PodContext): Promise<number> {
  const { client, print, signal } = context;
  const pages = [];
  for (const pod of await findPods(client, selection, signal)) {
    const status = await client.podSandboxStatus(pod.sandbox.id, signal);
    const kept = await keptOf(pod, context);
    pages.push(describePod({ pod, status, ...(kept === undefined ? {} : { kept }) }, Date.now()));
  }
  print(pages.join("\n\n"));
  return 0;
}

/** Between two looks at servers that report only the CPU time that was used. */
const rateMs = 1000;

async function top(request: RequestOf<"top">, { client, print, signal }: PodContext): Promise<number> {
  const running = (await findPods(client, request.selection, signal)).filter(({ isReady }) => isReady);
  const look = () => Promise.all(running.map(({ sandbox }) => client.listContainerStats(sandbox.id, signal)));
  const before = new Map((await look()).flat().map((stats) => [stats.attributes?.id, stats]));
  await sleep(rateMs, signal);
  const after = await look();
  const usage = running.map(({ namespace, name }, index) => ({
    namespace,
    name,
    containers: (after[index] ?? []).map((stats) => ({
      name: stats.attributes?.metadata?.name ?? "",
      ...usageOf(before.get(stats.attributes?.id), stats),
    })),
  }));
  print(renderUsage(usage, request));
  return 0;
}
