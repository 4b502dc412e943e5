import type { Call } from "../../../lib/call.js";
import { aggregate } from "../../../lib/errors.js";
import { sandboxIdOf } from "../find-by-id.js";
import { removeContainerById } from "../container/remove-container.js";
import type { Handler, Services } from "../services.js";
import { isStopped, stopSandbox } from "./stop-pod-sandbox.js";

/** Stops a sandbox and removes it with all its containers. Succeeds when there is nothing to remove. */
export const removePodSandbox: Handler<"RemovePodSandbox"> = async (request, services, call) => {
  await services.state.link.live(call.signal);
  const id = sandboxIdOf(request.pod_sandbox_id, services);
  if (id !== undefined) await removeSandbox(id, services, call);
  return {};
};

/**
 *     stop, with the network → remove containers → remove the pause container → remove checkpoint and record
 *
 * Checkpoint and record come last: from them a repeated call knows what to release.
 */
export async function removeSandbox(id: string, services: Services, call: Call): Promise<void> {
  await services.locks.sandboxes.run(id, call.signal, async () => {
    const { model, sync } = services.state;
    const { checkpoints, pods: podRecords } = services.records;
    const pod = model.sandbox(id)?.pod;
    if (pod !== undefined) call.pod = `${pod.namespace}/${pod.name}`;
    if (!isStopped(id, services)) await stopSandbox(id, services, call);
    if (model.containerId(id) !== undefined) return;
    const removals = await Promise.allSettled(
      model.containerIdsOf(id).map((containerId) => removeContainerById(containerId, services, call)),
    );
    const failed = aggregate(
      removals.flatMap((one) => (one.status === "rejected" ? [one.reason as unknown] : [])),
    );
    if (failed !== undefined) throw failed;
    if (model.sandbox(id) !== undefined) await sync.remove(id, { force: true }, call.signal);
    // In this order: until both are gone, the record says that the network is torn down.
    await checkpoints.remove(id);
    await podRecords.remove(id);
  });
}
