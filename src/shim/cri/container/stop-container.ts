import type { Call } from "../../lib/call.js";
import type { Answer, StopContainerRequest, StopContainerResponse } from "../../domain/cri.js";
import { stopTimeoutSeconds } from "../../domain/stop-signal.js";
import { findContainer } from "../find-by-id.js";
import type { Services } from "../services.js";

/**
 * Returns when the container has stopped. Succeeds for a stopped and for an unknown container. Takes no lock,
 * so that a later call with a shorter timeout overtakes.
 */
export async function stopContainer(
  request: StopContainerRequest,
  services: Services,
  call: Call,
): Promise<Answer<StopContainerResponse>> {
  const { engine } = services;
  const { link, sync } = services.state;
  await link.live(call.signal);
  const container = await findContainer(request.container_id, services, call.signal);
  if (container === undefined) return {};
  await engine.stopContainer(container.id, stopTimeoutSeconds(request.timeout), call.signal);
  await sync.refresh(container.id, call.signal);
  return {};
}
