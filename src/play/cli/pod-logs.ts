/** `dockershim pod logs`. */
import { posix } from "node:path";
import { nodeFiles } from "../node/files.js";
import { logDirectory, logPath } from "../pod-config/pod-paths.js";
import { containerName, findPod, findPods, type FoundPod, newestAttempts } from "../pod-commands/find-pod.js";
import { readLogs } from "../pod-commands/read-logs.js";
import { drained } from "../view/drained.js";
import { ContainerState, type ContainerStatus } from "../../domain/cri.js";
import { isKind, messageOf, ShimError } from "../../lib/errors.js";
import { shownText } from "../../lib/shown-text.js";
import { chosenContainer, type PodContext, type RequestOf } from "./pod-context.js";

export async function printLogs(request: RequestOf<"logs">, context: PodContext): Promise<number> {
  const { client, print, report, stdout, signal } = context;
  let draining: Promise<void> | undefined;
  const pace = async (): Promise<void> => {
    // One for all containers: a stream warns of many listeners.
    await (draining ??= drained(stdout, signal));
    draining = undefined;
    signal.throwIfAborted();
  };
  const { selection, isOne, follow, tail, limitBytes, timestamps } = request;
  const [named] = selection.pods;
  const pods =
    isOne && named !== undefined
      ? [await findPod(client, named, signal, report)]
      : await findPods(client, selection, signal);
  const sinceMs =
    request.sinceTime ?? (request.sinceMs === undefined ? undefined : Date.now() - request.sinceMs);
  const read = async ([pod, status]: Chosen): Promise<void> => {
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
    const options = { follow, tail, sinceMs, limitBytes, timestamps, prefix };
    try {
      const path = await logFile(pod, status, request.previous, context);
      await readLogs({ path, isRunning }, options, nodeFiles, print, signal, pace);
    } catch (error) {
      const reason = explained(error, pod, status, request.previous);
      if (!request.ignoreErrors || signal.aborted) throw reason;
      report(messageOf(reason));
    }
  };
  const chosen: Chosen[] = [];
  for (const pod of pods) {
    const all = request.all ? newestAttempts(pod) : [await chosenContainer(pod, request.container, context)];
    chosen.push(...all.map((status) => [pod, status] as const));
  }
  // Followed side by side; else one after the other.
  if (follow) await Promise.all(chosen.map(read));
  else for (const each of chosen) await read(each);
  return 0;
}

type Chosen = readonly [pod: FoundPod, status: ContainerStatus];

/** Of an earlier run only what the server keeps is there. */
function explained(error: unknown, pod: FoundPod, status: ContainerStatus, previous: boolean): unknown {
  if (!previous || !isKind(error, "notFound")) return error;
  const what = `container "${shownText(containerName(status))}" in pod "${pod.namespace}/${pod.name}"`;
  return new ShimError("notFound", `${what}: it has no log of an earlier run`, {}, { cause: error });
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
  if (attempt === 0) throw new ShimError("notFound", "it was not restarted");
  const before = pod.containers.find(
    (each) => containerName(each) === name && each.metadata?.attempt === attempt - 1,
  );
  return before?.log_path || posix.join(posix.dirname(path), `${attempt - 1}.log`);
}
