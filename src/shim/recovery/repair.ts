import { withDeadline } from "../../lib/abort.js";
import { messageOf } from "../../lib/errors.js";
import type { Container } from "../../domain/container.js";
import { isContainerId } from "../../domain/id-and-label-filters.js";
import { isBelow } from "../plan/paths.js";
import type { EngineState } from "../state/engine-state.js";
import type { HostSource } from "../ports/host.js";
import type { ContainerLogs } from "../ports/container-logs.js";
import type { PodRecord } from "../state/pod-records.js";
import type { Records } from "../state/records.js";
import { endCheckpoints, type EndCheckpointsDeps } from "./end-checkpoints.js";
import type { Logger } from "../../lib/log.js";

export interface RepairDeps extends Pick<EndCheckpointsDeps, "locks"> {
  readonly state: Pick<EngineState, "model" | "sync">;
  readonly records: Records;
  readonly images: {
    readonly users: { prepare(imageId: string): void };
    readonly scratch: { removeOrphaned(signal: AbortSignal): Promise<void> };
    readonly volumes: { cleanUp(signal: AbortSignal): Promise<void> };
  };
  readonly node: HostSource;
  readonly logs: ContainerLogs;
  readonly log: Logger;
}

const repairTimeoutMs = 60_000;

/**
 * Repairs what a killed process left unfinished. Runs each time that the read model becomes live:
 * - Containers that a checkpoint has left frozen run on.
 * - Running containers get a missing log link: the kubelet sends no second StartContainer. A log file of this
 *   program without a record is continued; files that another program may write stay as they are.
 * - Orphaned scratch containers and unused image volumes are removed.
 * - The user databases of the images in use are read, for statuses.
 * - Log links of removed containers are removed from the log directories of pods on record. There only
 *   dockershim, cri-dockerd and this program create links to files of the engine.
 * - Records of removed containers, logs and pods are removed. A pod whose network must still be torn down is
 *   listed by its checkpoint, for the kubelet to remove it; a missing checkpoint is written again.
 *
 * Sandboxes whose RunPodSandbox was killed need no repair: their record keeps them NOTREADY.
 */
export async function repairAfterStart(deps: RepairDeps, stopping?: AbortSignal): Promise<void> {
  await withDeadline(stopping, repairTimeoutMs, "repair after start", async (signal) => {
    // A step that fails does not end the others.
    const step = async (action: string, work: () => Promise<void>): Promise<void> => {
      try {
        await work();
      } catch (error) {
        signal.throwIfAborted();
        deps.log.warn({ step: action, err: messageOf(error) }, "repair step after the start failed");
      }
    };
    const known = [...deps.state.model.containers()];
    await step("end checkpoints of a killed process", () => endCheckpoints(deps, signal));
    await step("create missing log links", () => linkLogs(known, deps, signal));
    await step("remove orphaned scratch containers", () => deps.images.scratch.removeOrphaned(signal));
    await step("remove log links of removed containers", () => unlinkDeadLogs(deps, signal));
    await step("remove orphaned records", () => removeOrphanedRecords(deps, signal));
    prepareUsers(known, deps);
    await step("create missing log links of pending containers", async () => {
      const late = await inspectPending(deps, signal);
      await linkLogs(late, deps, signal);
      prepareUsers(late, deps);
    });
    await step("clean up image volumes", () => deps.images.volumes.cleanUp(signal));
  });
}

async function linkLogs(
  containers: readonly Container[],
  { state: { model, sync }, records, node, logs, log }: RepairDeps,
  signal: AbortSignal,
): Promise<void> {
  for (const { id, sandboxId, logPath } of containers) {
    // The container may have been removed since the list was made.
    const snapshot = model.snapshot(id);
    if (snapshot === undefined || logPath === "" || !snapshot.state.running || logs.owns(id)) continue;
    try {
      if (await node.host().restoreLogLink(logPath, snapshot, signal)) {
        // Removed meanwhile: the removal looked for the link before it was created.
        if (!model.has(id)) await node.host().unlinkLog(logPath, id);
        continue;
      }
      // Only this program writes the logs of pods of this state directory.
      const directory = records.pods.get(sandboxId)?.logDirectory ?? "";
      const isOurs = directory !== "" && isBelow(logPath, directory);
      if (isOurs && (await logs.adopt(snapshot, { directory, path: logPath }))) {
        log.warn(
          { containerId: id, path: logPath },
          "log record of a running container is missing, continuing after the last line of its file",
        );
        // It may have ended before there was a record. A failed inspect is repeated in the background.
        await sync.refresh(id, signal).catch(() => undefined);
        continue;
      }
      log.warn(
        { containerId: id, path: logPath },
        logs.ownerOf(id) === "engine"
          ? "cannot create the log link of a running container, a file is in its place"
          : "log of a running container is a file of unknown origin, not writing it",
      );
    } catch (error) {
      log.warn(
        { containerId: id, path: logPath, err: messageOf(error) },
        "cannot create the log link of a running container",
      );
    }
  }
}

function prepareUsers(containers: readonly Container[], { images }: RepairDeps): void {
  for (const { snapshot } of containers) images.users.prepare(snapshot.imageId);
}

/** Inspects pending containers again, and returns those that are known then. */
async function inspectPending(
  { state: { model, sync } }: RepairDeps,
  signal: AbortSignal,
): Promise<readonly Container[]> {
  const pending = model.pendingIds();
  await Promise.allSettled(pending.map((id) => sync.refresh(id, signal)));
  return pending.flatMap((id) => model.container(id) ?? []);
}

/** For containers that were removed while this program did not run: no record has their log paths. */
async function unlinkDeadLogs(deps: RepairDeps, signal: AbortSignal): Promise<void> {
  const { node, records, log } = deps;
  for (const directory of new Set([...records.pods.all()].map(({ logDirectory }) => logDirectory))) {
    if (directory === "") continue;
    signal.throwIfAborted();
    try {
      for (const { path, containerId } of await node.host().deadLogLinks(directory)) {
        if (await isRemoved(containerId, deps, signal)) await node.host().unlinkLog(path, containerId);
      }
    } catch (error) {
      log.warn({ path: directory, err: messageOf(error) }, "cannot remove log links of removed containers");
    }
  }
}

async function removeOrphanedRecords(deps: RepairDeps, signal: AbortSignal): Promise<void> {
  const { records, logs } = deps;
  for (const containerId of logs.ids()) {
    if (await isRemoved(containerId, deps, signal)) await logs.remove(containerId);
  }
  for (const { containerId } of [...records.containers.all()]) {
    if (await isRemoved(containerId, deps, signal)) await records.containers.remove(containerId);
  }
  for (const { sandboxId } of [...records.pods.all()]) {
    if (!(await isRemoved(sandboxId, deps, signal))) continue;
    // With a checkpoint the sandbox is still listed, and the kubelet removes it.
    if ((await records.checkpoints.get(sandboxId)) !== undefined) continue;
    // As it is now: RemovePodSandbox may be under way.
    const record = records.pods.get(sandboxId);
    if (record === undefined) continue;
    const { state } = record.network;
    if (state === "none" || state === "tornDown") await records.pods.remove(sandboxId);
    else await restoreCheckpoint(record, deps);
  }
}

/**
 * The network of a pod without container and checkpoint must still be torn down, and nobody would ask for it:
 * a power cut took the checkpoint away, or a kill came between its removal and that of the record.
 */
async function restoreCheckpoint(
  { sandboxId, name, namespace }: PodRecord,
  { records, log }: RepairDeps,
): Promise<void> {
  log.warn({ sandboxId }, "checkpoint of a recorded pod is missing, restored for its removal");
  await records.checkpoints.put(sandboxId, { version: "v1", name, namespace, data: {} });
  // Removed meanwhile.
  if (records.pods.get(sandboxId) === undefined) await records.checkpoints.remove(sandboxId);
}

/** Whether the engine has no such container. Without an answer of the engine: false. */
async function isRemoved(
  id: string,
  { state: { model, sync }, log }: RepairDeps,
  signal: AbortSignal,
): Promise<boolean> {
  if (model.has(id)) return false;
  if (!isContainerId(id)) return true;
  try {
    await sync.refresh(id, signal);
  } catch (error) {
    log.warn({ containerId: id, err: messageOf(error) }, "cannot find out whether a container was removed");
    return false;
  }
  return !model.has(id);
}
