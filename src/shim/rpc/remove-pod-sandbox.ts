import type { Call } from "../base/call.js";
import { aggregate } from "../base/errors.js";
import type { Answer, RemovePodSandboxRequest, RemovePodSandboxResponse } from "../domain/cri.js";
import { removeContainerById } from "./remove-container.js";
import type { Services } from "./services.js";
import type { StopSandboxDeps } from "./stop-pod-sandbox.js";
import { stopSandbox } from "./stop-pod-sandbox.js";

export type RemoveSandboxDeps = StopSandboxDeps &
  Pick<Services, "containerRecords" | "containerLanes" | "sandboxLanes">;

/** Removes a sandbox with all its containers; stops it first. Succeeds when there is nothing to remove. */
export async function removePodSandbox(
  request: RemovePodSandboxRequest,
  deps: RemoveSandboxDeps & Pick<Services, "link">,
  call: Call,
): Promise<Answer<RemovePodSandboxResponse>> {
  await deps.link.live(call.signal);
  const id = deps.model.sandbox(request.pod_sandbox_id)?.id ?? request.pod_sandbox_id;
  if (deps.model.container(id) !== undefined) return {};
  await removeSandbox(id, deps, call);
  return {};
}

/**
 *     stop (network included) → remove containers → remove the pause container → forget checkpoint and record
 *
 * Checkpoint and record go last: as long as they are there, a repeated call knows what is left to release.
 */
export async function removeSandbox(id: string, deps: RemoveSandboxDeps, call: Call): Promise<void> {
  await deps.sandboxLanes.run(id, call.signal, async () => {
    const { engine, model, sync, checkpoints, podRecords } = deps;
    await stopSandbox(id, deps, call);
    const removals = await Promise.allSettled(
      model.containersOf(id).map((container) => removeContainerById(container.id, deps, call)),
    );
    const failed = aggregate(
      removals.flatMap((one) => (one.status === "rejected" ? [one.reason as unknown] : [])),
    );
    if (failed !== undefined) throw failed;
    if (model.sandbox(id) !== undefined) {
      await engine.removeContainer(id, { force: true }, call.signal);
      await sync.refresh(id);
    }
    await checkpoints.remove(id);
    await podRecords.remove(id);
  });
}
