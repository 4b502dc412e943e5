import type { Call } from "../../lib/call.js";
import { aggregate, ShimError, messageOf } from "../../lib/errors.js";
import type { Answer, StopPodSandboxRequest, StopPodSandboxResponse } from "../../domain/cri.js";
import type { DockerStatus } from "../../domain/snapshot.js";
import { findSandbox, sandboxIdOf } from "../find-by-id.js";
import { tearDownNetwork } from "./sandbox-network.js";
import type { Services } from "../services.js";
import type { Sandbox } from "../../domain/sandbox.js";
import type { PodRecord } from "../../state/pod-records.js";

/** The pause program ends at once when it is told to; foreign pause images get this long. */
const pauseGraceSeconds = 10;

/** Succeeds for sandboxes that are stopped, gone, or known only from their checkpoint. */
export async function stopPodSandbox(
  request: StopPodSandboxRequest,
  services: Services,
  call: Call,
): Promise<Answer<StopPodSandboxResponse>> {
  await services.state.link.live(call.signal);
  const id = sandboxIdOf(request.pod_sandbox_id, services);
  if (id !== undefined)
    await services.locks.sandboxes.run(id, call.signal, () => stopSandbox(id, services, call));
  return {};
}

/**
 *     mark not ready → stop all containers → tear down the network → stop the pause container → look for containers again
 *
 * The network goes before the pause container because its tear-down wants that container's namespace; while it fails,
 * that container stays, and the error makes the kubelet try again. Held by the caller: the sandbox's lock.
 *
 * A sandbox counts as gone only when the engine says so. One that it cannot describe now is not stopped by halves: that
 * is an error.
 */
export async function stopSandbox(id: string, services: Services, call: Call): Promise<void> {
  const { engine } = services;
  const { model, sync } = services.state;
  const sandbox = await findSandbox(id, services, call.signal);
  // A container is no sandbox, and is not stopped by mistake.
  if (model.containerId(id) !== undefined) return;
  if (sandbox !== undefined) call.pod = `${sandbox.pod.namespace}/${sandbox.pod.name}`;

  await rememberStop(id, sandbox, services);
  await stopContainers(id, model.containerIdsOf(id), services, call);
  try {
    await tearDownNetwork(id, sandbox, services, call);
  } catch (error) {
    throw ShimError.from(error).within(`tear down the network of sandbox "${id}"`, { sandboxId: id });
  }
  if (sandbox === undefined) return;
  await engine.stopContainer(id, pauseGraceSeconds, call.signal);
  await sync.refresh(id, call.signal);
  // Where the mark could not be written, a container may have been started until now.
  await stopContainers(id, startable(id, services), services, call);
}

/**
 * The pod's processes end with their sandbox: dockershim left them running without a network. Each container is looked
 * at under its lock, after whatever start of it is under way.
 */
async function stopContainers(
  sandboxId: string,
  ids: readonly string[],
  { engine, state: { sync }, locks: { containers: containerLocks } }: Services,
  call: Call,
): Promise<void> {
  const stopOne = async (id: string): Promise<void> => {
    const snapshot = await sync.refresh(id, call.signal);
    if (snapshot === undefined || !needsStop(snapshot.state.status)) return;
    await engine.stopContainer(id, 0, call.signal);
    await sync.refresh(id, call.signal);
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

function needsStop(status: DockerStatus): boolean {
  return status !== "created" && status !== "exited" && status !== "dead";
}

/** Containers that run, or have not been started yet. */
function startable(sandboxId: string, { state: { model } }: Services): readonly string[] {
  return model.containerIdsOf(sandboxId).filter((id) => {
    const status = model.snapshot(id)?.state.status;
    return status === undefined || status === "created" || needsStop(status);
  });
}

/**
 * Remembers that a sandbox is being stopped, so that it is not ready any more. One that dockershim or cri-dockerd made
 * has no record: it gets one, in which the tear-down of its network will be remembered.
 *
 * A full disk must not keep a pod running: in the end the stopped container says the same.
 */
export async function rememberStop(
  id: string,
  sandbox: Sandbox | undefined,
  services: Services,
): Promise<void> {
  const { network, log } = services;
  const { model } = services.state;
  const { pods: podRecords } = services.records;
  const record = podRecords.get(id);
  const isAdopted = record !== undefined && adopts(record, services);
  try {
    if (record === undefined) {
      if (sandbox !== undefined) await podRecords.put(newRecord(sandbox, network.name));
    } else if (isAdopted || record.phase !== "stopped") {
      await podRecords.update(id, (present) => ({
        ...present,
        phase: "stopped",
        network: isAdopted ? { ...present.network, plugin: network.name } : present.network,
      }));
    }
  } catch (error) {
    log.warn({ sandboxId: id, err: messageOf(error) }, "cannot remember that the sandbox is being stopped");
  }
  model.recordChanged(id);
}

/**
 * Whether another plugin set the network up: the present one then releases it, as well as it can. It becomes the
 * network's plugin, so that this is said once.
 */
function adopts({ sandboxId, network: held }: PodRecord, { network, log }: Services): boolean {
  if (held.plugin === network.name || held.state === "none" || held.state === "tornDown") return false;
  log.warn(
    { sandboxId, setUpBy: held.plugin, plugin: network.name },
    "another network plugin set this pod up, the present one tears it down",
  );
  return true;
}

/** What Docker tells of the sandbox. Whether its network was released already nobody can tell: then it is once more. */
function newRecord({ id, pod, ...sandbox }: Sandbox, plugin: string): PodRecord {
  const { network, pid, ipc } = sandbox.namespaces;
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
