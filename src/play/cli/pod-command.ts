/** `dockershim pod`: runs what the command line asked for. */
import { posix } from "node:path";
import { type ConnectedClient, connect } from "../cri/client.js";
import type { Manifest, PodKey } from "../manifests/manifest.js";
import { nodeFiles } from "../node/files.js";
import { listPodRecords } from "../node/pod-record.js";
import { type Directories, defaultDirectories, logDirectory, logPath } from "../pod-config/pod-paths.js";
import { describePod } from "../pod-commands/describe-pod.js";
import { containerName, findPod, findPods, type FoundPod, newestAttempts } from "../pod-commands/find-pod.js";
import { type KeptPod, keptPod } from "../pod-commands/kept-pod.js";
import { renderPods, summarize } from "../pod-commands/pod-summary.js";
import { renderUsage, usageOf } from "../pod-commands/pod-usage.js";
import { readLogs } from "../pod-commands/read-logs.js";
import { podsToRemove, removePods } from "../session/remove-pods.js";
import { PlayStore, workloadName } from "../store/play-store.js";
import { drained } from "../view/drained.js";
import { ContainerState, type ContainerStatus } from "../../domain/cri.js";
import { sleep } from "../../lib/abort.js";
import { isKind, messageOf, ShimError } from "../../lib/errors.js";
import { shownText } from "../../lib/shown-text.js";
import { podDeps } from "./play-deps.js";
import { openEngineAccess, recordDirectories } from "./open-engine-access.js";
import {
  chosenContainer,
  type PodContext,
  type PodIo,
  type PodOptions,
  type PodRequest,
  type RequestOf,
} from "./pod-context.js";
import { podEvents } from "./pod-events.js";
import { copyFrom, copyTo, portForward, streamCommand } from "./pod-streams.js";

/** The exit code: of exec, that of the command. Errors are printed, not thrown. */
export async function runPod({ request, endpoint }: PodOptions, io: PodIo): Promise<number> {
  const report = (line: string): void => {
    io.stderr.write(`${line}\n`);
  };
  const client = connect(endpoint);
  try {
    const print = (text: string): void => {
      io.stdout.write(text);
    };
    let directories: Promise<Directories> | undefined;
    const records = (): Promise<Directories> =>
      (directories ??= recordDirectories(client, { endpoint, directories: defaultDirectories }, io.signal));
    return await run(request, { ...io, endpoint, client, print, report, records });
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

function run(request: PodRequest, context: PodContext): Promise<number> {
  switch (request.verb) {
    case "ps":
      return ps(request, context);
    case "logs":
      return logs(request, context);
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
    case "down":
      return down(request, context);
  }
}

async function ps({ namespace, output }: RequestOf<"ps">, context: PodContext): Promise<number> {
  const { client, print, signal } = context;
  const pods = await findPods(client, namespace, signal);
  const now = Date.now();
  const summaries = await Promise.all(
    pods.map(async (pod) => {
      const kept = await keptOf(pod, context);
      try {
        return summarize(pod, await client.podSandboxStatus(pod.sandbox.id, signal), kept, now);
      } catch (error) {
        if (isKind(error, "notFound")) return summarize(pod, undefined, kept, now); // Removed since it was listed.
        throw error;
      }
    }),
  );
  print(await renderPods(summaries, output, now));
  return 0;
}

/** What play keeps of a pod that it made on this host. */
async function keptOf(
  { sandbox, isPlayed }: FoundPod,
  { report, records }: Pick<PodContext, "report" | "records">,
): Promise<KeptPod | undefined> {
  if (!isPlayed) return undefined;
  return keptPod(sandbox, { files: nodeFiles, directories: await records(), report });
}

async function logs(request: RequestOf<"logs">, context: PodContext): Promise<number> {
  const { client, print, stdout, signal } = context;
  let draining: Promise<void> | undefined;
  const pace = async (): Promise<void> => {
    // One for all containers: a stream warns of many listeners.
    await (draining ??= drained(stdout, signal));
    draining = undefined;
    signal.throwIfAborted();
  };
  const pod = await findPod(client, request.pod, signal);
  const chosen = request.all ? newestAttempts(pod) : [await chosenContainer(pod, request.container, context)];
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
    const path = await logFile(pod, status, request.previous, context);
    const options = { follow, tail, sinceMs: since, timestamps, prefix };
    await readLogs({ path, isRunning }, options, nodeFiles, print, signal, pace);
  };
  // Followed side by side; else one after the other.
  if (follow) await Promise.all(chosen.map(read));
  else for (const status of chosen) await read(status);
  return 0;
}

async function logFile(
  pod: FoundPod,
  status: ContainerStatus,
  previous: boolean,
  { records }: Pick<PodContext, "records">,
): Promise<string> {
  const { name, attempt } = { name: containerName(status), attempt: status.metadata?.attempt ?? 0 };
  const { namespace, name: podName, sandbox } = pod;
  const key = { namespace, name: podName, uid: sandbox.metadata?.uid ?? "" };
  const path = status.log_path || posix.join(logDirectory(await records(), key), logPath(name, attempt));
  if (!previous) return path;
  if (attempt === 0) throw new ShimError("notFound", `container "${shownText(name)}": it was not restarted`);
  const before = pod.containers.find(
    (each) => containerName(each) === name && each.metadata?.attempt === attempt - 1,
  );
  return before?.log_path || posix.join(posix.dirname(path), `${attempt - 1}.log`);
}

async function describe({ pod: name }: RequestOf<"describe">, context: PodContext): Promise<number> {
  const { client, print, signal } = context;
  const pod = await findPod(client, name, signal);
  const status = await client.podSandboxStatus(pod.sandbox.id, signal);
  const kept = await keptOf(pod, context);
  print(describePod({ pod, status, ...(kept === undefined ? {} : { kept }) }, Date.now()));
  return 0;
}

/** Between two looks at servers that report only the CPU time that was used. */
const rateMs = 1000;

async function top(request: RequestOf<"top">, { client, print, signal }: PodContext): Promise<number> {
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

async function down(
  { pods }: RequestOf<"down">,
  { endpoint, client, report, signal }: PodContext,
): Promise<number> {
  const paths = { endpoint, directories: defaultDirectories, report };
  await using access = await openEngineAccess(client, await client.status(signal), paths, signal);
  const deps = podDeps(client, access, { report });
  const records = await listPodRecords({ ...deps, report: () => undefined }); // podsToRemove reports.
  const keys: { readonly source: string; readonly key: PodKey }[] = [];
  for (const wanted of pods) {
    const isWanted = ({ key }: Manifest): boolean =>
      key.namespace === wanted.namespace && key.name === wanted.name;
    const { key } = records.find(isWanted) ?? { key: { ...wanted, uid: "" } };
    keys.push({ source: "", key: await keyToRemove(client, key, signal) });
  }
  // The supervisor would make them again after a reboot. Those of a Deployment belong to it.
  const names = new Set(keys.map(({ key }) => workloadName({ ...key, kind: "Pod" })));
  const store = new PlayStore(posix.join(defaultDirectories.state, "plays.d"), endpoint);
  await store.release(names, report);
  const removal = await podsToRemove({ pods: keys, owners: [] }, deps, signal);
  const { failed } = await removePods(removal.pods, deps, signal);
  await store.release(names, () => undefined); // An attached play may have stored them meanwhile.
  return failed > 0 ? 1 : 0;
}

/** `kept`: with the uid of the pod's record, or none. A pod whose containers are gone may have files still. */
async function keyToRemove(client: ConnectedClient, kept: PodKey, signal: AbortSignal): Promise<PodKey> {
  try {
    const { namespace, name, isPlayed, sandbox } = await findPod(client, kept, signal);
    if (isPlayed) return { namespace, name, uid: sandbox.metadata?.uid ?? "" };
  } catch (error) {
    if (isKind(error, "notFound") && kept.uid !== "") return kept;
    throw error;
  }
  throw new ShimError(
    "precondition",
    `pod "${kept.namespace}/${kept.name}": play did not make it, and removes nothing that it did not make`,
  );
}
