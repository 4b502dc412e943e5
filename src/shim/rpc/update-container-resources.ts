import type { Call } from "../base/call.js";
import { ShimError } from "../base/errors.js";
import { ContainerState } from "../domain/cri.js";
import type {
  Answer,
  UpdateContainerResourcesRequest,
  UpdateContainerResourcesResponse,
} from "../domain/cri.js";
import { planUpdate } from "../plan/update-resources.js";
import { applyCgroupLimits } from "./cgroup-limits.js";
import { requireReadContainer } from "./find-by-id.js";
import type { Services } from "./services.js";

/** Zero fields mean "leave". A request without `linux` changes nothing. */
export async function updateContainerResources(
  request: UpdateContainerResourcesRequest,
  deps: Pick<Services, "engine" | "link" | "model" | "sync" | "host" | "containerRecords" | "containerLanes">,
  call: Call,
): Promise<Answer<UpdateContainerResourcesResponse>> {
  const { engine, link, model, sync, containerRecords, containerLanes } = deps;
  const facts = await link.live(call.signal);
  const { id } = await requireReadContainer(request.container_id, deps, call.signal);
  const { linux } = request;
  if (linux === null) return {};
  await containerLanes.run(id, call.signal, async () => {
    const { snapshot, state } = model.requireContainer(id);
    if (state !== ContainerState.CONTAINER_CREATED && state !== ContainerState.CONTAINER_RUNNING) {
      throw new ShimError("precondition", `cannot update container "${id}": it is ${snapshot.state.status}`, {
        containerId: id,
      });
    }
    const { body, cgroup } = planUpdate(linux, snapshot.resources, facts);
    try {
      // All or nothing: what Docker cannot do is the likelier to fail, so it goes first, and back when Docker refuses.
      if (cgroup !== undefined && snapshot.state.running)
        await applyCgroupLimits(snapshot, cgroup, deps, call);
      try {
        if (Object.keys(body).length > 0) await engine.updateContainer(id, body, call.signal);
      } catch (error) {
        const before = containerRecords.get(id)?.cgroup;
        if (cgroup !== undefined && before !== undefined)
          await applyCgroupLimits(snapshot, before, deps, call);
        throw error;
      }
      if (cgroup !== undefined) await containerRecords.merge(id, cgroup);
      await sync.refresh(id);
    } catch (error) {
      throw ShimError.from(error).within(`failed to update container "${id}"`, { containerId: id });
    }
  });
  return {};
}
