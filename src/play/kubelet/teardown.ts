/** Stops and removes a pod, in the kubelet's order. */
import type { CriClient } from "../client.js";
import { defaultGracePeriodSeconds } from "../containers/cri-config.js";
import { type Container, ContainerState } from "../../shim/domain/cri.js";
import { gracePeriodAnnotation } from "../../shim/domain/labels.js";
import type { PlayFiles } from "../containers/files.js";
import type { PodKey } from "../manifests/read-manifests.js";
import { type Directories, logDirectory, podDirectory } from "../containers/pod-files.js";

type Calls = Pick<CriClient, "listContainers" | "stopContainer" | "stopPodSandbox" | "removePodSandbox">;

/** Stops all containers in parallel, each with the grace period of its creation. Can be repeated. */
export async function removeSandbox(client: Calls, sandboxId: string, signal: AbortSignal): Promise<void> {
  const containers = await client.listContainers(sandboxId, signal);
  const running = containers.filter(({ state }) => state === ContainerState.CONTAINER_RUNNING);
  await Promise.all(
    running.map((container) => client.stopContainer(container.id, graceSeconds(container), signal)),
  );
  await client.stopPodSandbox(sandboxId, signal);
  await client.removePodSandbox(sandboxId, signal);
}

/** Deletes the logs and the volumes of a pod whose sandboxes have been removed. */
export async function removePodFiles(
  files: Pick<PlayFiles, "removeTree">,
  directories: Directories,
  key: PodKey,
): Promise<void> {
  await files.removeTree(logDirectory(directories, key));
  await files.removeTree(podDirectory(directories, key));
}

export function graceSeconds({ annotations }: Pick<Container, "annotations">): number {
  const text = annotations[gracePeriodAnnotation] ?? "";
  return /^\d{1,10}$/.test(text) ? Number(text) : defaultGracePeriodSeconds;
}
