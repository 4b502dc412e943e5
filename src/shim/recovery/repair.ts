import { withDeadline } from "../lib/abort.js";
import { messageOf } from "../lib/errors.js";
import type { Container } from "../domain/container.js";
import { isContainerId } from "../domain/filter.js";
import { isBelow } from "../plan/paths.js";
import type { Engine } from "../ports/engine.js";
import type { ReadModel } from "../state/read-model.js";
import type { StateSync } from "../state/state-sync.js";
import type { HostAccess } from "../ports/host.js";
import type { ContainerLogs } from "../ports/container-logs.js";
import type { PodRecords } from "../state/pod-records.js";
import type { ContainerRecords } from "../state/container-records.js";
import type { CheckpointStore } from "../ports/checkpoint-store.js";
import type { Logger } from "../lib/log.js";

interface Deps {
  readonly engine: Engine;
  readonly model: ReadModel;
  readonly sync: Pick<StateSync, "refresh">;
  readonly host: () => HostAccess;
  readonly logs: ContainerLogs;
  readonly imageUsers: { prepare(imageId: string): void };
  readonly scratch: { removeOrphaned(signal: AbortSignal): Promise<void> };
  readonly imageVolumes: { cleanUp(signal: AbortSignal): Promise<void> };
  readonly podRecords: PodRecords;
  readonly containerRecords: ContainerRecords;
  readonly checkpoints: CheckpointStore;
  readonly log: Logger;
  readonly settings: { readonly cleanUpTimeoutMs: number };
}

const repairTimeoutMs = 60_000;

/**
 * Mends what a killed predecessor left half made. Runs each time that the read model has become live:
 * - running containers whose log is a link that is missing get it (the kubelet sends no second StartContainer); those
 *   whose log is a file of ours without a record are written on; what another program may write is not touched,
 * - scratch containers are removed, and image volumes that nobody uses,
 * - the user databases of the images in use are read again, for the statuses,
 * - log links of containers that are gone are removed from the log directories of pods on record: in them only dockershims
 *   make links to files of the engine,
 * - records of containers, logs and pods that are gone, and have nothing left to release, are forgotten.
 *
 * Sandboxes whose set-up never ended need nothing: their record says so, and they are not ready for ever.
 */
export async function repairAfterStart(deps: Deps, stopping?: AbortSignal): Promise<void> {
  await withDeadline(stopping, repairTimeoutMs, "repair after start", async (signal) => {
    // Each step fails alone: the others do not need what it would have done.
    const step = async (action: string, work: () => Promise<void>): Promise<void> => {
      try {
        await work();
      } catch (error) {
        signal.throwIfAborted();
        deps.log.warn({ err: messageOf(error) }, `cannot ${action}`);
      }
    };
    const known = [...deps.model.containers()];
    await step("link logs", () => linkLogs(known, deps, signal));
    await step("remove leftover scratch containers", () => deps.scratch.removeOrphaned(signal));
    await step("remove the log links of gone containers", () => unlinkDeadLogs(deps, signal));
    await step("forget the records of what is gone", () => forgetGone(deps, signal));
    prepareUsers(known, deps);
    await step("link logs of containers that were read late", async () => {
      const late = await readLate(deps, signal);
      await linkLogs(late, deps, signal);
      prepareUsers(late, deps);
    });
    await step("tidy up image volumes", () => deps.imageVolumes.cleanUp(signal));
  });
}

async function linkLogs(
  containers: readonly Container[],
  { model, sync, host, logs, podRecords, log }: Deps,
  signal: AbortSignal,
): Promise<void> {
  for (const { id, sandboxId, logPath } of containers) {
    // The list is as old as the repair: a kubelet removes containers meanwhile.
    const snapshot = model.snapshot(id);
    if (snapshot === undefined || logPath === "" || !snapshot.state.running || logs.owns(id)) continue;
    try {
      if (await host().restoreLogLink(logPath, snapshot, signal)) {
        // Removed in these very moments: whoever did that looked for the link before it was there.
        if (!model.has(id)) await host().unlinkLog(logPath, id);
        continue;
      }
      // A pod of this state directory has no logs that another program writes.
      const directory = podRecords.get(sandboxId)?.logDirectory ?? "";
      const isOurs = directory !== "" && isBelow(logPath, directory);
      if (isOurs && (await logs.adopt(snapshot, { directory, path: logPath }))) {
        log.warn(
          { containerId: id, path: logPath },
          "the record of the log of a running container was lost: the log goes on behind the last line of its file",
        );
        // It may have ended before there was a record, and nobody would look again. A failed look is repeated anyway.
        await sync.refresh(id, signal).catch(() => undefined);
        continue;
      }
      log.warn(
        { containerId: id, path: logPath },
        logs.ownerOf(id) === "engine"
          ? "a file is in the way of the link to the engine's log of a running container: it is left"
          : "the log of a running container is a file of which this state directory knows nothing: it is left to who writes it",
      );
    } catch (error) {
      log.warn(
        { containerId: id, path: logPath, err: messageOf(error) },
        "cannot link the log of a running container",
      );
    }
  }
}

function prepareUsers(containers: readonly Container[], { imageUsers }: Deps): void {
  for (const { snapshot } of containers) imageUsers.prepare(snapshot.imageId);
}

/** Containers whose inspect took too long for the first look. One that fails again is left as it is. */
async function readLate({ model, sync }: Deps, signal: AbortSignal): Promise<readonly Container[]> {
  const unread = model.pendingIds();
  await Promise.allSettled(unread.map((id) => sync.refresh(id, signal)));
  return unread.flatMap((id) => model.container(id) ?? []);
}

/** Of containers that somebody removed while nobody looked: nothing else remembers their log paths. */
async function unlinkDeadLogs(deps: Deps, signal: AbortSignal): Promise<void> {
  const { host, podRecords, log } = deps;
  for (const directory of new Set([...podRecords.all()].map(({ logDirectory }) => logDirectory))) {
    if (directory === "") continue;
    signal.throwIfAborted();
    try {
      for (const { path, containerId } of await host().deadLogLinks(directory)) {
        if (await isGone(containerId, deps, signal)) await host().unlinkLog(path, containerId);
      }
    } catch (error) {
      log.warn({ path: directory, err: messageOf(error) }, "cannot remove the log links of gone containers");
    }
  }
}

async function forgetGone(deps: Deps, signal: AbortSignal): Promise<void> {
  const { podRecords, containerRecords, checkpoints, logs } = deps;
  for (const containerId of logs.ids()) {
    if (await isGone(containerId, deps, signal)) await logs.remove(containerId);
  }
  for (const { containerId } of [...containerRecords.all()]) {
    if (await isGone(containerId, deps, signal)) await containerRecords.remove(containerId);
  }
  for (const { sandboxId, network } of [...podRecords.all()]) {
    // With a checkpoint it is still listed, and the kubelet stops and removes it; a network may have to be released.
    if (network.state !== "none" && network.state !== "tornDown") continue;
    if (!(await isGone(sandboxId, deps, signal))) continue;
    if ((await checkpoints.get(sandboxId)) === undefined) await podRecords.remove(sandboxId);
  }
}

/** Only the engine's word counts: one that it cannot describe now is not gone. */
async function isGone(id: string, { model, sync, log }: Deps, signal: AbortSignal): Promise<boolean> {
  if (model.has(id)) return false;
  if (!isContainerId(id)) return true;
  try {
    await sync.refresh(id, signal);
  } catch (error) {
    log.warn({ containerId: id, err: messageOf(error) }, "cannot tell whether a container is gone");
    return false;
  }
  return !model.has(id);
}
