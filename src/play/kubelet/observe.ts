/** Asks the CRI server for the sandboxes and containers of a pod, and reads their termination messages. */
import { unlessKind } from "../../lib/errors.js";
import { ContainerState, type ContainerStatus, type PodSandbox, PodSandboxState } from "../../domain/cri.js";
import { gracePeriodAnnotation, podNameLabel, podNamespaceLabel } from "../../domain/labels.js";
import type { CriClient } from "../cri/client.js";
import { podIps } from "./create-container.js";
import { playHashAnnotation } from "../pod-config/cri-config.js";
import type { Directories } from "../pod-config/pod-paths.js";
import { noteServersOfPods } from "../pod-config/servers-of-pods.js";
import type { HostFiles } from "../node/files.js";
import type { MountedFiles } from "../node/mounted-files.js";
import type { PodKey } from "../manifests/read-manifests.js";
import { outputOf } from "../node/log-lines.js";
import {
  type ObservedContainer,
  type ObservedPod,
  type ObservedSandbox,
  type ObservedState,
  byAge,
} from "../pod-rules/observed-pod.js";

export interface ObserveDeps {
  readonly client: Pick<
    CriClient,
    "listPodSandboxes" | "podSandboxStatus" | "listContainers" | "containerStatus"
  >;
  readonly files: Pick<HostFiles, "readTail" | "exists">;
  readonly mounted: Pick<MountedFiles, "readTail">;
  readonly directories: Directories;
}

/** Sandboxes under the pod's name, by any program, and their containers. `listed`: all of the server. */
export async function observePod(
  deps: ObserveDeps,
  key: Pick<PodKey, "namespace" | "name">,
  signal: AbortSignal,
  listed?: readonly PodSandbox[],
): Promise<ObservedPod> {
  const labels = { [podNamespaceLabel]: key.namespace, [podNameLabel]: key.name };
  const items =
    listed?.filter((sandbox) =>
      Object.entries(labels).every(([name, value]) => sandbox.labels[name] === value),
    ) ?? (await deps.client.listPodSandboxes(labels, signal));
  await noteServersOfPods(deps.directories, items, deps.files);
  const sandboxes = items.map(observedSandbox).sort(byAge);
  const [network, ...containers] = await Promise.all([
    networkOf(deps, sandboxes[0], signal),
    ...sandboxes.map(({ id }) => observeContainers(deps, id, signal)),
  ]);
  return { sandboxes, containers: containers.flat().sort(byAge), ...network };
}

export function observedSandbox(item: PodSandbox): ObservedSandbox {
  return {
    id: item.id,
    attempt: item.metadata?.attempt ?? 0,
    isReady: item.state === PodSandboxState.SANDBOX_READY,
    createdAt: BigInt(item.created_at),
    playHash: item.annotations[playHashAnnotation],
    uid: item.metadata?.uid ?? "",
  };
}

async function networkOf(
  { client }: ObserveDeps,
  newest: ObservedSandbox | undefined,
  signal: AbortSignal,
): Promise<Pick<ObservedPod, "ips" | "lacksIp">> {
  const none = { ips: [], lacksIp: false };
  if (newest?.isReady !== true) return none;
  // Undefined when it was removed since the list, as below.
  const status = await client.podSandboxStatus(newest.id, signal).catch(unlessKind("notFound"));
  return status === undefined ? none : { ips: podIps(status), lacksIp: status.network?.ip === "" };
}

async function observeContainers(
  deps: ObserveDeps,
  sandboxId: string,
  signal: AbortSignal,
): Promise<readonly ObservedContainer[]> {
  const listed = await deps.client.listContainers(sandboxId, signal);
  const observed = await Promise.all(
    listed.map(async ({ id }) => {
      const status = await deps.client.containerStatus(id, signal).catch(unlessKind("notFound"));
      if (status === undefined) return undefined;
      const isExited = status.state === ContainerState.CONTAINER_EXITED;
      return observedContainer(status, sandboxId, isExited ? await terminationMessage(status, deps) : "");
    }),
  );
  return observed.filter((container) => container !== undefined);
}

const states: Readonly<Record<ContainerState, ObservedState>> = {
  [ContainerState.CONTAINER_CREATED]: "created",
  [ContainerState.CONTAINER_RUNNING]: "running",
  [ContainerState.CONTAINER_EXITED]: "exited",
  [ContainerState.CONTAINER_UNKNOWN]: "unknown",
};

/** Annotations that the kubelet gives its containers. */
const hashAnnotation = "io.kubernetes.container.hash";
const messagePathAnnotation = "io.kubernetes.container.terminationMessagePath";
const messagePolicyAnnotation = "io.kubernetes.container.terminationMessagePolicy";

/** `written`: its termination message. */
export function observedContainer(
  status: ContainerStatus,
  sandboxId: string,
  written: string,
): ObservedContainer {
  return {
    id: status.id,
    name: status.metadata?.name ?? "",
    sandboxId,
    attempt: status.metadata?.attempt ?? 0,
    state: states[status.state],
    hash: status.annotations[hashAnnotation] ?? "",
    image: status.image?.user_specified_image ?? status.image?.image ?? "",
    imageId: status.image_id === "" ? status.image_ref : status.image_id,
    graceSeconds: graceSeconds(status.annotations[gracePeriodAnnotation]),
    createdAt: BigInt(status.created_at),
    startedAt: milliseconds(status.started_at),
    finishedAt: milliseconds(status.finished_at),
    exitCode: status.exit_code,
    reason: status.reason,
    message: [status.message, written].filter((text) => text !== "").join(": "),
  };
}

function graceSeconds(text = ""): number | undefined {
  return /^\d{1,10}$/.test(text) ? Number(text) : undefined;
}

function milliseconds(nanoseconds: string): number {
  return Number(BigInt(nanoseconds) / 1_000_000n);
}

/** The kubelet's limits for the message file, and for the log in its place. */
const messageBytes = 4096;
const logBytes = 2048;
const logLines = 80;

/** With FallbackToLogsOnError, the end of the log of a container that failed without a message. */
async function terminationMessage(
  { mounts, annotations, exit_code, log_path }: ContainerStatus,
  { files, mounted }: Pick<ObserveDeps, "files" | "mounted">,
): Promise<string> {
  const path = annotations[messagePathAnnotation];
  const mount = mounts.find(({ container_path }) => container_path === path);
  const message = mount === undefined ? "" : await mounted.readTail(mount.host_path, messageBytes);
  const mayFallBack = annotations[messagePolicyAnnotation] === "FallbackToLogsOnError" && exit_code !== 0;
  if (message !== "" || !mayFallBack || log_path === "") return message;
  // Lines of the log are longer than what the container has written.
  const lines = outputOf(await files.readTail(log_path, 8 * logBytes)).slice(-logLines);
  return Buffer.from(lines.map((line) => `${line}\n`).join(""))
    .subarray(-logBytes)
    .toString();
}
