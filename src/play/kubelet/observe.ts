/** Asks the CRI server for the sandboxes and containers of a pod, and reads their termination messages. */
import { isKind } from "../../shim/lib/errors.js";
import { ContainerState, type ContainerStatus, PodSandboxState } from "../../shim/domain/cri.js";
import { podNameLabel, podNamespaceLabel } from "../../shim/domain/labels.js";
import type { CriClient } from "../client.js";
import { playHashAnnotation } from "../containers/cri-config.js";
import type { PodKey } from "../manifests/read-manifests.js";
import {
  type ObservedContainer,
  type ObservedPod,
  type ObservedSandbox,
  type ObservedState,
  describeExit,
  newestSandbox,
} from "./next-step.js";
import type { PlayFiles } from "../containers/files.js";
import { type Directories, terminationMessageFile } from "../containers/pod-files.js";

type Reads = Pick<CriClient, "listPodSandboxes" | "listContainers" | "containerStatus">;

/** All sandboxes under the pod's namespace and name, by any program, and the containers of the newest one. */
export async function observePod(client: Reads, key: PodKey, signal: AbortSignal): Promise<ObservedPod> {
  const labels = { [podNamespaceLabel]: key.namespace, [podNameLabel]: key.name };
  const items = await client.listPodSandboxes(labels, signal);
  const sandboxes: readonly ObservedSandbox[] = items.map((item) => ({
    id: item.id,
    attempt: item.metadata?.attempt ?? 0,
    isReady: item.state === PodSandboxState.SANDBOX_READY,
    createdAt: BigInt(item.created_at),
    playHash: item.annotations[playHashAnnotation],
    uid: item.metadata?.uid ?? "",
  }));
  const newest = newestSandbox(sandboxes);
  return {
    sandboxes,
    containers: newest === undefined ? [] : await observeContainers(client, newest.id, signal),
  };
}

/** The newest attempt of each container of a sandbox. */
export async function observeContainers(
  client: Pick<Reads, "listContainers" | "containerStatus">,
  sandboxId: string,
  signal: AbortSignal,
): Promise<readonly ObservedContainer[]> {
  const listed = await client.listContainers(sandboxId, signal);
  const newest = new Map<string, { readonly id: string; readonly attempt: number }>();
  for (const { id, metadata } of listed) {
    const { name, attempt } = metadata ?? { name: "", attempt: 0 };
    const other = newest.get(name);
    if (other === undefined || other.attempt < attempt) newest.set(name, { id, attempt });
  }
  const statuses = await Promise.all([...newest.values()].map(({ id }) => statusOf(client, id, signal)));
  return statuses.filter((status) => status !== undefined).map(toObserved);
}

/** Undefined when the container was removed since the list. */
async function statusOf(
  client: Pick<Reads, "containerStatus">,
  id: string,
  signal: AbortSignal,
): Promise<ContainerStatus | undefined> {
  try {
    return await client.containerStatus(id, signal);
  } catch (error) {
    if (isKind(error, "notFound")) return undefined;
    throw error;
  }
}

const states: Readonly<Record<ContainerState, ObservedState>> = {
  [ContainerState.CONTAINER_CREATED]: "created",
  [ContainerState.CONTAINER_RUNNING]: "running",
  [ContainerState.CONTAINER_EXITED]: "exited",
  [ContainerState.CONTAINER_UNKNOWN]: "unknown",
};

export function toObserved(status: ContainerStatus): ObservedContainer {
  return {
    id: status.id,
    name: status.metadata?.name ?? "",
    attempt: status.metadata?.attempt ?? 0,
    state: states[status.state],
    exitCode: status.exit_code,
    reason: status.reason,
    message: status.message,
  };
}

/** Cut to the length that Kubernetes shows. */
const maxBytes = 4096;

/** Exit code and termination message of a container: `exit code 3: no such table`. */
export async function exitWithMessage(
  container: ObservedContainer,
  key: PodKey,
  directories: Directories,
  files: Pick<PlayFiles, "readTail">,
): Promise<string> {
  const path = terminationMessageFile(directories, key, container.name, container.attempt);
  const message = (await files.readTail(path, maxBytes)).trim();
  return describeExit(message === "" ? container : { ...container, message });
}
