import type { Call } from "../../lib/call.js";
import { messageOf } from "../../lib/errors.js";
import { sandboxName, type PodIdentity } from "../../domain/names.js";
import type { Services } from "../services.js";
import { stopSandbox } from "./stop-pod-sandbox.js";

/**
 * Stops the sandboxes that this pod had before and that hold its network still: a kill or a failed undo left
 * them, or their pause container has ended. Their host ports and addresses are the pod's own, and must not be
 * refused to it until StopPodSandbox is called. What is ready, has a container that runs, or cannot be
 * told is left alone. Never throws but for the end of the call: without its past the pod may start all the
 * same.
 */
export async function releaseDeadAttempts(pod: PodIdentity, services: Services, call: Call): Promise<void> {
  const { log } = services;
  const { pods: podRecords } = services.records;
  const { sandboxes: sandboxLocks } = services.locks;
  for (const record of [...podRecords.all()]) {
    const { sandboxId } = record;
    if (record.uid !== pod.uid || record.name !== pod.name || record.namespace !== pod.namespace) continue;
    if (!holdsNetwork(sandboxId, services)) continue;
    try {
      // The lock of its name: a RunPodSandbox that is still at work on it is waited for.
      await sandboxLocks.run(sandboxName(record), call.signal, () =>
        sandboxLocks.run(sandboxId, call.signal, async () => {
          if (!(await isDead(sandboxId, services, call))) return;
          await stopSandbox(sandboxId, services, call);
          log.info({ sandboxId, attempt: record.attempt }, "released an earlier sandbox of the pod");
        }),
      );
    } catch (error) {
      call.signal.throwIfAborted();
      log.warn({ sandboxId, err: messageOf(error) }, "cannot release an earlier sandbox of the pod");
    }
  }
}

async function isDead(id: string, services: Services, call: Call): Promise<boolean> {
  const { model, sync } = services.state;
  if (!holdsNetwork(id, services)) return false;
  await sync.refresh(id, call.signal);
  const sandbox = model.sandbox(id);
  if (sandbox?.ready === true) return false;
  // One that has not been inspected yet may run.
  return model.containerIdsOf(id).every((one) => model.snapshot(one)?.state.running === false);
}

function holdsNetwork(id: string, { records: { pods: podRecords } }: Services): boolean {
  const state = podRecords.get(id)?.network.state;
  return state === "settingUp" || state === "ready";
}
