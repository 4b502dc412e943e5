import type { Call } from "../../../lib/call.js";
import { isKind, ShimError } from "../../../lib/errors.js";
import { Rollback } from "../../../lib/rollback.js";
import { containerType, typeLabel } from "../../../domain/labels.js";
import type { ValidContainerConfig, ValidCreateContainer } from "../../../domain/requests.js";
import type { Sandbox } from "../../../domain/sandbox.js";
import type { Snapshot } from "../../../domain/snapshot.js";
import { type ContainerPlan, containerNeeds, planContainer } from "../../plan/container-plan.js";
import { mayNeedOciRuntime } from "../../plan/oci-changes.js";
import { gatherContainerInputs } from "./container-inputs.js";
import { createOrRecover, type ConflictOutcome } from "../../recovery/create-or-recover.js";
import { removeContainerById } from "./remove-container.js";
import type { Handler, Services } from "../services.js";
import type { Container } from "../../../domain/container.js";
import {
  invalidField,
  preconditionField,
  longestProgramBytes,
  programTooLong,
} from "../../../domain/field-errors.js";
import { securityContextField } from "../../plan/security-options.js";

/** The steps are those of ARCHITECTURE.md, "The life of a pod". A failed step leaves nothing behind. */
export const createContainer: Handler<"CreateContainer"> = async (request, services, call) => {
  const { name } = request.config.metadata;
  try {
    const facts = await services.state.link.live(call.signal);
    const sandbox = requireReady(request.pod_sandbox_id, services);
    call.pod = `${sandbox.pod.namespace}/${sandbox.pod.name}`;
    const inputs = await gatherContainerInputs(request, facts, services, call);
    const oci = mayNeedOciRuntime(request.config, facts, inputs)
      ? await services.node.ociRuntime.find(facts, call.signal)
      : "works";
    const { imageVolumes: wanted } = containerNeeds(request);
    // The lease ends when the container exists, which then counts as a user of its volumes.
    await using imageVolumes = await services.images.volumes.lease(wanted, facts, call.signal);
    const plan = planContainer(request, {
      facts,
      sandbox,
      inputs: { ...inputs, imageVolumes: imageVolumes.sources },
      defaultUlimits: services.settings.defaultUlimits,
      allowedAnnotations: services.settings.allowedAnnotations,
      composeLabels: services.settings.composeLabels ?? false,
      oneContainerdShimPerPod: services.settings.oneContainerdShimPerPod,
      oomScoreAdj: (wanted) => services.node.oomScores.clamp(wanted),
      ociProblem: oci === "works" ? undefined : oci.problem,
      podUsers: services.records.containers.get(sandbox.id)?.oci?.users,
      resolveContainer: (id) => {
        const target = services.state.model.requireContainer(id);
        checkTarget(target, sandbox.id);
        return target.id;
      },
    });
    const id = await services.locks.containers.run(plan.name, call.signal, () =>
      create(plan, request, sandbox.id, services, call),
    );
    return { container_id: id };
  } catch (error) {
    // The image may have been removed without an event.
    if (isKind(error, "notFound")) services.images.cache.forget();
    throw ShimError.from(error).within(`create container "${name}" in sandbox "${request.pod_sandbox_id}"`, {
      sandboxId: request.pod_sandbox_id,
    });
  }
};

function requireReady(id: string, { state: { model } }: Services): Sandbox {
  const sandbox = model.requireSandbox(id);
  if (!sandbox.ready) throw new ShimError("precondition", `sandbox "${sandbox.id}" is not ready`);
  return sandbox;
}

async function create(
  plan: ContainerPlan,
  { config, sandbox_config: { log_directory: directory } }: ValidCreateContainer,
  sandboxId: string,
  services: Services,
  call: Call,
): Promise<string> {
  const { logs, settings } = services;
  const { sync } = services.state;
  const { containers: containerRecords } = services.records;
  using _ = sync.changing(plan.name);
  await using rollback = new Rollback(call.log, settings.cleanUpTimeoutMs, call.signal);
  const id = await createOrRecover(plan, services, call, (conflictingId) =>
    removeConflicting(conflictingId, plan.name, services, call),
  );
  rollback.defer("remove container", (signal) => sync.remove(id, { force: true }, signal));
  call.signal.throwIfAborted();
  rollback.defer("forget the log", () => logs.remove(id));
  // Both are awaited also when one fails: the undo of the log comes after its record.
  const [refreshed, recorded] = await Promise.allSettled([
    sync.refresh(id, call.signal),
    logs.created(id, { directory, path: plan.logPath }),
  ]);
  if (refreshed.status === "rejected") throw refreshed.reason;
  if (recorded.status === "rejected") throw recorded.reason;
  const snapshot = refreshed.value;
  if (snapshot === undefined)
    throw new ShimError("unavailable", "the engine lost the container right after its creation");
  if (snapshot.programBytes > longestProgramBytes) throw programTooLong(fieldOfProgram(config, snapshot));
  // After the refresh: the clean-up removes records of containers that the read model does not have.
  const { cgroup, oci } = plan;
  if (cgroup !== undefined || oci !== undefined) {
    rollback.defer("remove container record", () => containerRecords.remove(id));
    await containerRecords.put({
      ...{ version: 1, containerId: id, cgroup: cgroup ?? { unified: {}, hugepages: [] } },
      ...(oci === undefined ? {} : { oci }),
    });
  }
  // If the sandbox was stopped or removed in the meantime, no later call would remove this container.
  requireReady(sandboxId, services);
  call.signal.throwIfAborted();
  rollback.commit();
  services.images.users.prepare(snapshot.imageId);
  return id;
}

/** The first argument is the program where neither the request nor the image names another one. */
function fieldOfProgram({ args }: ValidContainerConfig, { programBytes }: Snapshot): string {
  return Buffer.byteLength(args[0] ?? "") === programBytes ? "config.args[0]" : "config.image";
}

/** Removes a dead container of this name, which an earlier call created. A running one is never touched. */
async function removeConflicting(
  conflictingId: string,
  name: string,
  services: Services,
  call: Call,
): Promise<ConflictOutcome> {
  const conflicting = await services.state.sync.refresh(conflictingId, call.signal);
  if (conflicting === undefined) {
    const foreign = await services.engine.inspectContainer(conflictingId, call.signal);
    return foreign === undefined ? "removed" : "foreign";
  }
  if (conflicting.labels[typeLabel] !== containerType) return "foreign";
  try {
    // Not forced, so that the engine refuses while a start is in flight.
    if (!conflicting.state.running) {
      await removeContainerById(conflictingId, services, call, { force: false });
      return "removed";
    }
  } catch (error) {
    if (!isKind(error, "precondition", "conflict")) throw error;
    const now = await services.state.sync.refresh(conflictingId, call.signal);
    if (now?.state.running !== true) return "foreign";
  }
  throw new ShimError("conflict", `a running container already has the name "${name}"`, {
    containerId: conflictingId,
  });
}

const field = `${securityContextField}.namespace_options.target_id`;

/**
 * A container may join the PID namespace of a running container of its own pod, and of no other: the CRI
 * defines TARGET so, and a namespace shows all processes of the pod that it belongs to.
 */
export function checkTarget({ id, sandboxId, snapshot }: Container, wantedSandboxId: string): void {
  if (sandboxId !== wantedSandboxId) throw invalidField(field, "is a container of another pod", id);
  const { running, status } = snapshot.state;
  if (!running) throw preconditionField(field, `the container is ${status}, not running`, id);
}
