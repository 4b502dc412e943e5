import type { Call } from "../base/call.js";
import { aggregate, ShimError } from "../base/errors.js";
import type { Answer, StopPodSandboxRequest, StopPodSandboxResponse } from "../domain/cri.js";
import { tearDownNetwork } from "./sandbox-network.js";
import type { Services } from "./services.js";

export type StopSandboxDeps = Pick<
  Services,
  "engine" | "model" | "sync" | "podRecords" | "checkpoints" | "network" | "host" | "log"
>;

/** The pause program ends at once when it is told to; foreign pause images get this long. */
const pauseGraceSeconds = 10;

/** Succeeds for sandboxes that are stopped, gone, or known only from their checkpoint. */
export async function stopPodSandbox(
  request: StopPodSandboxRequest,
  deps: StopSandboxDeps & Pick<Services, "link" | "sandboxLanes">,
  call: Call,
): Promise<Answer<StopPodSandboxResponse>> {
  await deps.link.live(call.signal);
  const id = deps.model.sandbox(request.pod_sandbox_id)?.id ?? request.pod_sandbox_id;
  // A container is no sandbox, and is not stopped by mistake.
  if (deps.model.container(id) !== undefined) return {};
  await deps.sandboxLanes.run(id, call.signal, () => stopSandbox(id, deps, call));
  return {};
}

/**
 *     mark not ready → stop all containers → tear down the network → stop the pause container
 *
 * The network goes first because its tear-down wants the pause container's namespace; while it fails, that container
 * stays, and the error makes the kubelet try again.
 */
export async function stopSandbox(id: string, deps: StopSandboxDeps, call: Call): Promise<void> {
  const { engine, model, sync, podRecords, log } = deps;
  const sandbox = model.sandbox(id);
  if (sandbox !== undefined) call.pod = `${sandbox.pod.namespace}/${sandbox.pod.name}`;

  if (podRecords.get(id) !== undefined && podRecords.get(id)?.phase !== "stopped") {
    // A full disk must not keep a pod running: the stopped container says the same.
    await podRecords
      .update(id, (record) => ({ ...record, phase: "stopped" }))
      .catch((error: unknown) => {
        log.warn({ sandboxId: id, err: error }, "cannot remember that the sandbox is being stopped");
      });
    model.recordChanged(id);
  }
  await stopContainersOf(id, deps, call);
  try {
    await tearDownNetwork(id, sandbox, deps, call);
  } catch (error) {
    throw ShimError.from(error).within(`tear down the network of sandbox "${id}"`, { sandboxId: id });
  }
  if (sandbox === undefined) return;
  await engine.stopContainer(id, pauseGraceSeconds, call.signal);
  await sync.refresh(id);
}

/** The pod's processes end with their sandbox: dockershim left them running without a network. */
async function stopContainersOf(
  id: string,
  { engine, model, sync }: StopSandboxDeps,
  call: Call,
): Promise<void> {
  const running = model.containersOf(id).filter((container) => container.snapshot.state.running);
  const results = await Promise.allSettled(
    running.map(async (container) => {
      await engine.stopContainer(container.id, 0, call.signal);
      await sync.refresh(container.id);
    }),
  );
  const failed = aggregate(
    results.flatMap((result) => (result.status === "rejected" ? [result.reason as unknown] : [])),
  );
  if (failed !== undefined) throw failed.within(`stop the containers of sandbox "${id}"`, { sandboxId: id });
}
