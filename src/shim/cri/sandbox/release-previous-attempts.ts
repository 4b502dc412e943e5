import type { Call } from "../../../lib/call.js";
import { messageOf } from "../../../lib/errors.js";
import { sandboxName, type PodIdentity } from "../../../domain/names.js";
import type { Services } from "../services.js";
import { stopSandbox } from "./stop-pod-sandbox.js";

/**
 * Stops previous sandboxes of this pod that still hold its network: a kill or a failed undo left them, or
 * their pause container has ended. The new sandbox needs their host ports and addresses before the kubelet
 * calls StopPodSandbox. Leaves a sandbox alone that is ready, has a running container, or cannot be
 * inspected. Throws only the reason of `call.signal`: the pod may start without this.
 */
export async function releasePreviousAttempts(
  pod: PodIdentity,
  services: Services,
  call: Call,
): Promise<void> {
  const { log } = services;
  const { pods: podRecords } = services.records;
  const { sandboxes: sandboxLocks } = services.locks;
  for (const record of [...podRecords.all()]) {
    const { sandboxId } = record;
    if (record.uid !== pod.uid || record.name !== pod.name || record.namespace !== pod.namespace) continue;
    if (!holdsNetwork(sandboxId, services)) continue;
    try {
      // The lock of the name waits for a RunPodSandbox that is in flight.
      await sandboxLocks.run(sandboxName(record), call.signal, () =>
        sandboxLocks.run(sandboxId, call.signal, async () => {
          if (!(await isDead(sandboxId, services, call))) return;
          await stopSandbox(sandboxId, services, call);
          log.info({ sandboxId, attempt: record.attempt }, "released a previous sandbox of the pod");
        }),
      );
    } catch (error) {
      call.signal.throwIfAborted();
      log.warn({ sandboxId, err: messageOf(error) }, "cannot release a previous sandbox of the pod");
    }
  }
}

async function isDead(id: string, services: Services, call: Call): Promise<boolean> {
  const { model, sync } = services.state;
  if (!holdsNetwork(id, services)) return false;
  await sync.refresh(id, call.signal);
  const sandbox = model.sandbox(id);
  if (sandbox?.ready === true) return false;
  // A container without a snapshot may run.
  return model.containerIdsOf(id).every((one) => model.snapshot(one)?.state.running === false);
}

function holdsNetwork(id: string, { records: { pods: podRecords } }: Services): boolean {
  const state = podRecords.get(id)?.network.state;
  return state === "settingUp" || state === "ready";
}
