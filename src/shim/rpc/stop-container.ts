import type { Call } from "../base/call.js";
import type { Answer, StopContainerRequest, StopContainerResponse } from "../domain/cri.js";
import { stopTimeoutSeconds } from "../domain/stop-signal.js";
import type { Services } from "./services.js";

/**
 * Returns when the container has stopped; succeeds for one that has, or that is unknown. Concurrent calls go to the
 * engine side by side, so that a later one with a shorter timeout wins.
 */
export async function stopContainer(
  request: StopContainerRequest,
  { engine, link, model, sync }: Pick<Services, "engine" | "link" | "model" | "sync">,
  call: Call,
): Promise<Answer<StopContainerResponse>> {
  await link.live(call.signal);
  const container = model.container(request.container_id);
  if (container === undefined) return {};
  await engine.stopContainer(container.id, stopTimeoutSeconds(request.timeout), call.signal);
  await sync.refresh(container.id);
  return {};
}
