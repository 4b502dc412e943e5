import type { Call } from "../../../lib/call.js";
import { stopTimeoutSeconds } from "../../../domain/stop-signal.js";
import type { DockerStatus, Snapshot } from "../../../domain/snapshot.js";
import { findContainer } from "../find-by-id.js";
import type { Handler, Services } from "../services.js";

/**
 * Returns when the container has stopped. Succeeds for a stopped and for an unknown container. Takes no lock,
 * so that a later call with a shorter timeout overtakes.
 */
export const stopContainer: Handler<"StopContainer"> = async (request, services, call) => {
  const { link } = services.state;
  await link.live(call.signal);
  const container = await findContainer(request.container_id, services, call.signal);
  if (container === undefined) return {};
  await stopAndRefresh(container.snapshot, stopTimeoutSeconds(request.timeout), services, call);
  return {};
};

/** Stops a container, and inspects it unless the engine's answer says what the read model already has. */
export async function stopAndRefresh(
  { id, name }: Pick<Snapshot, "id" | "name">,
  graceSeconds: number,
  { engine, state: { model, sync } }: Services,
  call: Call,
): Promise<void> {
  using _ = sync.changing(name);
  const outcome = await engine.stopContainer(id, graceSeconds, call.signal);
  const known = model.isStale(id) ? undefined : model.snapshot(id)?.state.status;
  // Not of a created one: it may have been started, and have ended.
  if (outcome === "already" && (known === "exited" || known === "dead")) return;
  await sync.refresh(id, call.signal);
}

/** Whether a container of this status has a process, or may have one. */
export function needsStop(status: DockerStatus): boolean {
  return status !== "created" && status !== "exited" && status !== "dead";
}
