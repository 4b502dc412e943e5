import type { Call } from "../../../lib/call.js";
import { aggregate, ShimError, messageOf } from "../../../lib/errors.js";
import { needsStop, stopAndRefresh } from "../container/stop-container.js";
import { findSandbox, sandboxIdOf } from "../find-by-id.js";
import { networkMaker, recordTearDown, tearDownNetwork } from "./tear-down-network.js";
import type { Handler, Services } from "../services.js";
import type { Sandbox } from "../../../domain/sandbox.js";
import type { PodSandboxCheckpoint } from "../../ports/checkpoint-store.js";
import type { PodRecord } from "../../state/pod-records.js";

/** For foreign pause images. The built-in pause program ends at once. */
const pauseGraceSeconds = 10;

/** Succeeds for sandboxes that are stopped, unknown, or known only from their checkpoint. */
export const stopPodSandbox: Handler<"StopPodSandbox"> = async (request, services, call) => {
  await services.state.link.live(call.signal);
  const id = sandboxIdOf(request.pod_sandbox_id, services);
  if (id !== undefined)
    await services.locks.sandboxes.run(id, call.signal, () => stopSandbox(id, services, call));
  return {};
};

/**
 *     record: phase stopped → stop all containers → tear down the network, and stop the pause container
 *
 * A failed inspect of the sandbox is an error before the first step. The caller holds the lock of the sandbox.
 */
export async function stopSandbox(id: string, services: Services, call: Call): Promise<void> {
  const { model, sync } = services.state;
  const sandbox = await findSandbox(id, services, call.signal);
  // The id is that of a container.
  if (model.containerId(id) !== undefined) return;
  if (sandbox !== undefined) call.pod = `${sandbox.pod.namespace}/${sandbox.pod.name}`;
  // The kubelet stops each sandbox several times.
  if (isStopped(id, services)) {
    const ids = [id, ...model.containerIdsOf(id)];
    await Promise.all(ids.map((one) => sync.refresh(one, call.signal)));
    if (isStopped(id, services)) return;
  }

  // Beside the first steps. A failed read fails the tear-down.
  const checkpoint = services.records.checkpoints.get(id);
  checkpoint.catch(() => undefined);
  await recordStop(id, sandbox, services);
  await stopContainers(id, model.containerIdsOf(id), services, call);
  await endPod(id, sandbox, checkpoint, services, call);
  // If the record could not be written, a container may have been started until now.
  if (sandbox !== undefined) await stopContainers(id, startable(id, services), services, call);
}

/**
 * The tear-down needs the network namespace of the pause container: once the plugin holds it, that container is
 * stopped beside the tear-down, else after its success. While the tear-down fails, the kubelet repeats the call.
 */
async function endPod(
  id: string,
  sandbox: Sandbox | undefined,
  checkpoint: Promise<PodSandboxCheckpoint | undefined>,
  services: Services,
  call: Call,
): Promise<void> {
  const pause: { stopped?: Promise<void> } = {};
  const stopPause = (): void => {
    if (sandbox !== undefined)
      pause.stopped ??= stopAndRefresh(sandbox.snapshot, pauseGraceSeconds, services, call);
    pause.stopped?.catch(() => undefined); // It is awaited below.
  };
  const failures: unknown[] = [];
  try {
    const isTornDown = await tearDownNetwork(id, sandbox, checkpoint, stopPause, services, call);
    stopPause();
    // A second tear-down is harmless, so the engine need not wait for the record.
    if (isTornDown) await recordTearDown(id, services, call);
  } catch (error) {
    failures.push(
      ShimError.from(error).within(`tear down the network of sandbox "${id}"`, { sandboxId: id }),
    );
  }
  await pause.stopped?.catch((error: unknown) => failures.push(error));
  const failure = aggregate(failures);
  if (failure !== undefined) throw failure;
}

/** Whether, by the read model, an earlier call has completed all steps and no container runs. */
export function isStopped(
  id: string,
  { state: { model }, records: { pods: podRecords } }: Services,
): boolean {
  const record = podRecords.get(id);
  if (record?.phase !== "stopped" || model.sandbox(id) === undefined) return false;
  const isReleased = record.network.state === "none" || record.network.state === "tornDown";
  return isReleased && [id, ...model.containerIdsOf(id)].every((one) => hasEnded(one, model));
}

/** False for containers whose state is not known for sure, and for those that were never started. */
function hasEnded(id: string, model: Services["state"]["model"]): boolean {
  const status = model.snapshot(id)?.state.status;
  return !model.isStale(id) && (status === "exited" || status === "dead");
}

/** Stops each container under its lock, after a start that is in flight. */
async function stopContainers(
  sandboxId: string,
  ids: readonly string[],
  services: Services,
  call: Call,
): Promise<void> {
  const { model, sync } = services.state;
  const { containers: containerLocks } = services.locks;
  const stopOne = async (id: string): Promise<void> => {
    const known = model.isStale(id) ? undefined : model.snapshot(id);
    // The others are inspected first: another program may have started one, or an abandoned start took effect.
    const snapshot =
      known !== undefined && needsStop(known.state.status) ? known : await sync.refresh(id, call.signal);
    if (snapshot !== undefined && needsStop(snapshot.state.status))
      await stopAndRefresh(snapshot, 0, services, call);
  };
  const results = await Promise.allSettled(
    ids.map((id) => containerLocks.run(id, call.signal, () => stopOne(id))),
  );
  const failed = aggregate(
    results.flatMap((result) => (result.status === "rejected" ? [result.reason as unknown] : [])),
  );
  if (failed !== undefined)
    throw failed.within(`stop the containers of sandbox "${sandboxId}"`, { sandboxId });
}

/** Containers that run, or have not been started yet. */
function startable(sandboxId: string, { state: { model } }: Services): readonly string[] {
  return model.containerIdsOf(sandboxId).filter((id) => {
    const status = model.snapshot(id)?.state.status;
    return status === undefined || status === "created" || needsStop(status);
  });
}

/**
 * Writes phase `stopped` into the record: the sandbox is not ready any more. A sandbox of dockershim or
 * cri-dockerd gets a record, for the tear-down of its network. A failed write does not keep the pod running:
 * the stopped pause container is not ready, either.
 */
async function recordStop(id: string, sandbox: Sandbox | undefined, services: Services): Promise<void> {
  const { log } = services;
  const { model } = services.state;
  const { pods: podRecords } = services.records;
  const record = podRecords.get(id);
  try {
    if (record === undefined) {
      if (sandbox !== undefined) await podRecords.put(newRecord(sandbox));
    } else if (record.phase !== "stopped") {
      await podRecords.update(id, (present) => ({ ...present, phase: "stopped" }));
    }
  } catch (error) {
    log.warn({ sandboxId: id, err: messageOf(error) }, "cannot record the stop of the sandbox");
  }
  model.recordChanged(id);
}

/** From Docker's description. The network may be released already; a second tear-down is harmless. */
function newRecord(sandbox: Sandbox): PodRecord {
  const { id, pod } = sandbox;
  const { network, pid, ipc } = sandbox.namespaces;
  const plugin = networkMaker(sandbox, undefined) ?? "";
  return {
    version: 1,
    sandboxId: id,
    ...pod,
    phase: "stopped",
    runtimeHandler: sandbox.runtimeHandler,
    namespaces: { network, pid, ipc },
    network: { plugin, state: sandbox.hostNetwork ? "none" : "ready", ips: [] },
    logDirectory: "",
    cgroupParent: sandbox.snapshot.cgroupParent,
  };
}
