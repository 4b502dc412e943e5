import { withDeadline } from "../../lib/abort.js";
import type { Call } from "../../lib/call.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import { ContainerState } from "../../domain/cri.js";
import type { Answer, UpdateContainerResourcesResponse } from "../../domain/cri.js";
import type { ValidUpdateContainerResources } from "../../domain/requests.js";
import type { Snapshot } from "../../domain/snapshot.js";
import { planUpdate, type UpdatePlan } from "../../plan/resources.js";
import type { CgroupSettings } from "../../ports/host.js";
import { mergeCgroupSettings } from "../../state/container-records.js";
import { applyCgroupLimits } from "../../limits/cgroup-limits.js";
import { requireReadContainer } from "../find-by-id.js";
import type { Services } from "../services.js";

type Deps = Pick<
  Services,
  "engine" | "link" | "model" | "sync" | "host" | "containerRecords" | "containerLocks" | "settings"
>;

const noSettings: CgroupSettings = { unified: {}, hugepages: [] };

/** Zero fields mean "leave". */
export async function updateContainerResources(
  request: ValidUpdateContainerResources,
  deps: Deps,
  call: Call,
): Promise<Answer<UpdateContainerResourcesResponse>> {
  const { link, model, containerLocks } = deps;
  const facts = await link.live(call.signal);
  const { id } = await requireReadContainer(request.container_id, deps, call.signal);
  await containerLocks.run(id, call.signal, async () => {
    const { snapshot, state } = model.requireContainer(id);
    if (state !== ContainerState.CONTAINER_CREATED && state !== ContainerState.CONTAINER_RUNNING) {
      throw new ShimError("precondition", `cannot update container "${id}": it is ${snapshot.state.status}`, {
        containerId: id,
      });
    }
    const plan = planUpdate(request.linux, snapshot.resources, facts);
    try {
      await change(snapshot, plan, deps, call);
      await settle(id, plan, deps, call);
    } catch (error) {
      throw ShimError.from(error).within(`failed to update container "${id}"`, { containerId: id });
    }
  });
  return {};
}

/** All or nothing: what Docker cannot do is the likelier to fail, so it goes first, and back when Docker refuses. */
async function change(
  container: Snapshot,
  { body, cgroup }: UpdatePlan,
  deps: Deps,
  call: Call,
): Promise<void> {
  const { engine, host } = deps;
  const toWrite = container.state.running ? cgroup : undefined;
  const before = toWrite === undefined ? undefined : await host().presentCgroup(container, toWrite);
  try {
    if (toWrite !== undefined) await applyCgroupLimits(container, toWrite, deps, call);
    if (Object.keys(body).length > 0) await engine.updateContainer(container.id, body, call.signal);
  } catch (error) {
    await restore(container, before ?? noSettings, deps, call);
    throw error;
  }
}

/** Never throws: the error that made it necessary is the one to report. What is on record wins over what was read. */
async function restore(container: Snapshot, before: CgroupSettings, deps: Deps, call: Call): Promise<void> {
  const { containerRecords, settings } = deps;
  const { id, state } = container;
  const wanted = mergeCgroupSettings(before, containerRecords.get(id)?.cgroup ?? noSettings);
  const isEmpty = Object.keys(wanted.unified).length === 0 && wanted.hugepages.length === 0;
  if (isEmpty || !state.running) return;
  await withDeadline(undefined, settings.cleanUpTimeoutMs, "restore its cgroup limits", (signal) =>
    applyCgroupLimits(container, wanted, deps, { ...call, signal }),
  ).catch((error: unknown) => {
    call.log.error({ containerId: id, err: messageOf(error) }, "cannot restore the cgroup limits");
  });
}

/**
 * What must be true after the engine's part, no matter whether the caller still waits. The engine has the OCI runtime
 * write the whole cgroup anew: with cgroup v2 `memory.swap.max` is then what Docker's MemorySwap says, and no longer
 * what the kubelet gave the container of the node's swap.
 */
async function settle(id: string, { body, cgroup }: UpdatePlan, deps: Deps, call: Call): Promise<void> {
  const { sync, containerRecords, settings } = deps;
  await withDeadline(undefined, settings.cleanUpTimeoutMs, "apply its cgroup limits", async (signal) => {
    if (cgroup !== undefined) await containerRecords.merge(id, cgroup);
    const container = await sync.refresh(id, signal);
    const record = containerRecords.get(id);
    if (Object.keys(body).length === 0 || record === undefined || container?.state.running !== true) return;
    await applyCgroupLimits(container, record.cgroup, deps, { ...call, signal });
  });
}
