/** The end of rehearsed pods as a kubelet makes it, and what they leave behind. */
import { join } from "node:path";
import type { CriConnection } from "../../client/cri-connection.js";
import { messageOf } from "../../lib/errors.js";
import { namesIn } from "../../lib/files/directories.js";
import type { ContainerCalls } from "../../shim/ports/engine.js";
import type { PodNetworks } from "./pod-networks.js";
import { rehearsalLabel } from "./scratch-pods.js";
import type { Problem } from "./verdict.js";

/** Stops and removes sandboxes by their ids. */
export async function removePods(
  cri: Pick<CriConnection, "call">,
  ids: readonly string[],
  signal: AbortSignal,
): Promise<readonly Problem[]> {
  const problems: Problem[] = [];
  for (const id of ids) {
    try {
      await cri.call("StopPodSandbox", { pod_sandbox_id: id }, { signal });
      await cri.call("RemovePodSandbox", { pod_sandbox_id: id }, { signal });
    } catch (error) {
      signal.throwIfAborted();
      problems.push({ subject: `sandbox ${id}`, text: `its removal failed: ${messageOf(error)}` });
    }
  }
  return problems;
}

/** `directories` have a file for each pod; `kept` are paths that may stay. */
export async function findLeft(
  engine: Pick<ContainerCalls, "listContainers">,
  {
    directory,
    directories,
    kept,
    networks,
  }: {
    readonly directory: string;
    readonly directories: readonly string[];
    readonly kept: readonly string[];
    readonly networks: Pick<PodNetworks, "whatIsLeft"> | undefined;
  },
  signal: AbortSignal,
): Promise<readonly Problem[]> {
  const listed = await engine.listContainers({ labelKey: rehearsalLabel, labelValue: directory }, signal);
  const checkpoints: string[] = [];
  for (const path of directories) checkpoints.push(...(await namesIn(path)).map((name) => join(path, name)));
  return [
    ...listed.map(({ id }) => `container ${id} was not removed with its pod`),
    ...checkpoints.filter((path) => !kept.includes(path)).map((path) => `the checkpoint ${path} is left`),
    ...((await networks?.whatIsLeft(signal)) ?? []).map((what) => `${what} is left`),
  ].map((text) => ({ subject: "rehearsal", text }));
}
