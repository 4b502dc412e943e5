import { withDeadline } from "../base/abort.js";
import { messageOf } from "../base/errors.js";
import type { Services } from "./services.js";

type Deps = Pick<
  Services,
  | "engine"
  | "model"
  | "host"
  | "imageUsers"
  | "podRecords"
  | "containerRecords"
  | "checkpoints"
  | "settings"
  | "log"
>;

const repairTimeoutMs = 60_000;

/**
 * Mends what a killed predecessor left half made. Runs each time that the read model has become live:
 * - running containers whose log link is missing get it (the kubelet sends no second StartContainer),
 * - scratch containers are removed,
 * - the user databases of the images in use are read again, for the statuses,
 * - records of containers and pods that are gone, and have nothing left to release, are forgotten.
 *
 * Sandboxes whose set-up never ended need nothing: their record says so, and they are not ready for ever.
 */
export async function repairAfterStart(deps: Deps, stopping?: AbortSignal): Promise<void> {
  await withDeadline(stopping, repairTimeoutMs, "repair after start", async (signal) => {
    await linkLogs(deps, signal);
    await deps.imageUsers.removeLeftovers(signal);
    await forgetGone(deps);
    for (const { snapshot } of [...deps.model.containers()]) deps.imageUsers.prepare(snapshot.imageId);
  });
}

async function linkLogs({ model, host, log }: Deps, signal: AbortSignal): Promise<void> {
  for (const { id, logPath, snapshot } of [...model.containers()]) {
    if (logPath === "" || !snapshot.state.running) continue;
    try {
      await host().linkLog(logPath, snapshot, signal);
    } catch (error) {
      log.warn(
        { containerId: id, path: logPath, err: messageOf(error) },
        "cannot link the log of a running container",
      );
    }
  }
}

async function forgetGone({ model, podRecords, containerRecords, checkpoints }: Deps): Promise<void> {
  for (const { containerId } of [...containerRecords.all()]) {
    if (!model.has(containerId)) await containerRecords.remove(containerId);
  }
  for (const { sandboxId, network } of [...podRecords.all()]) {
    if (model.has(sandboxId)) continue;
    // With a checkpoint it is still listed, and the kubelet stops and removes it; a network may have to be released.
    const released = network.state === "none" || network.state === "tornDown";
    if (released && (await checkpoints.get(sandboxId)) === undefined) await podRecords.remove(sandboxId);
  }
}
