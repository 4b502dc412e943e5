import { withDeadline } from "../../../lib/abort.js";
import type { Call } from "../../../lib/call.js";
import { messageOf, ShimError } from "../../../lib/errors.js";
import { ContainerState } from "../../../domain/cri.js";
import type { Snapshot } from "../../../domain/snapshot.js";
import { planUpdate, type UpdatePlan } from "../../plan/resources.js";
import type { CgroupSettings } from "../../ports/host.js";
import { mergeCgroupSettings } from "../../state/container-records.js";
import { applyCgroupLimits } from "../../limits/cgroup-limits.js";
import { requireReadContainer } from "../find-by-id.js";
import type { Handler, Services } from "../services.js";

const noSettings: CgroupSettings = { unified: {}, hugepages: [] };

/** A field that is zero leaves its value unchanged. */
export const updateContainerResources: Handler<"UpdateContainerResources"> = async (
  request,
  services,
  call,
) => {
  const { link, model, sync } = services.state;
  const { containers: containerLocks } = services.locks;
  const facts = await link.live(call.signal);
  if (facts.cgroupDriver === "none")
    throw new ShimError("unsupported", "resources cannot be changed: the engine runs without cgroups");
  const { id } = await requireReadContainer(request.container_id, services, call.signal);
  await containerLocks.run(id, call.signal, async () => {
    const { snapshot, state } = model.requireContainer(id);
    if (state !== ContainerState.CONTAINER_CREATED && state !== ContainerState.CONTAINER_RUNNING) {
      throw new ShimError("precondition", `cannot update container "${id}": it is ${snapshot.state.status}`, {
        containerId: id,
      });
    }
    const plan = planUpdate(request.linux, snapshot.resources, facts);
    using _ = sync.changing(snapshot.name);
    try {
      await change(snapshot, plan, services, call);
      await settle(id, plan, services);
    } catch (error) {
      throw ShimError.from(error).within(`failed to update container "${id}"`, { containerId: id });
    }
  });
  return {};
};

/** All or nothing: the cgroup files, which are likelier to fail, come first, and are restored if Docker refuses. */
async function change(
  container: Snapshot,
  { body, cgroup }: UpdatePlan,
  services: Services,
  call: Call,
): Promise<void> {
  const { engine } = services;
  const { host } = services.node;
  const toWrite = container.state.running ? cgroup : undefined;
  const before = toWrite === undefined ? undefined : await host().presentCgroup(container, toWrite);
  try {
    if (toWrite !== undefined) await applyCgroupLimits(container, toWrite, services, call);
    if (Object.keys(body).length > 0) await engine.updateContainer(container.id, body, call.signal);
  } catch (error) {
    await restore(container, before ?? noSettings, services, call);
    throw error;
  }
}

/** Never throws: the first error is the one to report. Values of the record win over those read before. */
async function restore(
  container: Snapshot,
  before: CgroupSettings,
  services: Services,
  call: Call,
): Promise<void> {
  const { settings } = services;
  const { containers: containerRecords } = services.records;
  const { id, state } = container;
  const wanted = mergeCgroupSettings(before, containerRecords.get(id)?.cgroup ?? noSettings);
  const isEmpty = Object.keys(wanted.unified).length === 0 && wanted.hugepages.length === 0;
  if (isEmpty || !state.running) return;
  await withDeadline(undefined, settings.cleanUpTimeoutMs, "restore its cgroup limits", (signal) =>
    applyCgroupLimits(container, wanted, services, { ...call, signal }),
  ).catch((error: unknown) => {
    call.log.error({ containerId: id, err: messageOf(error) }, "cannot restore the cgroup limits");
  });
}

/**
 * Runs to its end even when the caller has left. The OCI runtime has written the whole cgroup again: with
 * cgroup v2 `memory.swap.max` is now Docker's MemorySwap, no longer the swap limit of the kubelet. So the
 * limits of the record are applied again.
 */
async function settle(id: string, { body, cgroup }: UpdatePlan, services: Services): Promise<void> {
  const { settings } = services;
  const { sync } = services.state;
  const { containers: containerRecords } = services.records;
  await withDeadline(undefined, settings.cleanUpTimeoutMs, "apply its cgroup limits", async (signal) => {
    if (cgroup !== undefined) await containerRecords.merge(id, cgroup);
    const container = await sync.refresh(id, signal);
    if (container === undefined || (cgroup === undefined && Object.keys(body).length === 0)) return;
    await services.node.limits.applyChanged(container, signal);
  });
}
