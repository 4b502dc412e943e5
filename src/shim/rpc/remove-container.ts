import type { Call } from "../base/call.js";
import type { Answer, RemoveContainerRequest, RemoveContainerResponse } from "../domain/cri.js";
import type { Services } from "./services.js";

type Deps = Pick<Services, "engine" | "model" | "sync" | "containerRecords" | "containerLanes" | "host">;

/** Removes a container, running or not; succeeds when there is none. */
export async function removeContainer(
  request: RemoveContainerRequest,
  deps: Deps & Pick<Services, "link">,
  call: Call,
): Promise<Answer<RemoveContainerResponse>> {
  await deps.link.live(call.signal);
  const container = deps.model.container(request.container_id);
  if (container !== undefined) await removeContainerById(container.id, deps, call);
  return {};
}

/** The log link goes after the container, so that a failed removal keeps the log reachable. */
export async function removeContainerById(
  id: string,
  deps: Deps,
  call: Call,
  options: { readonly force: boolean } = { force: true },
): Promise<void> {
  const { engine, model, sync, containerRecords, containerLanes, host } = deps;
  await containerLanes.run(id, call.signal, async () => {
    const container = model.container(id);
    if (container === undefined) return;
    await engine.removeContainer(id, options, call.signal);
    if (container.logPath !== "") await host().unlinkLog(container.logPath);
    await containerRecords.remove(id);
    await sync.refresh(id);
  });
}
