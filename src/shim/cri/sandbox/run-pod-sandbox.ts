import { tries } from "../../../domain/reach.js";
import { createHash } from "node:crypto";
import type { Call } from "../../../lib/call.js";
import { isKind, ShimError } from "../../../lib/errors.js";
import { Rollback } from "../../../lib/rollback.js";
import { nowNanoseconds } from "../../../lib/time.js";
import { sandboxType, typeLabel } from "../../../domain/labels.js";
import { NamespaceMode } from "../../../domain/cri.js";
import type { ValidRunPodSandbox } from "../../../domain/requests.js";
import type { Snapshot } from "../../../domain/snapshot.js";
import { dockerRuntime } from "../../plan/runtime-handler.js";
import { type SandboxPlan, planSandbox } from "../../plan/sandbox-plan.js";
import { sysctlError } from "../../plan/sysctls.js";
import type { PodSandboxCheckpoint } from "../../ports/checkpoint-store.js";
import type { PodRecord } from "../../state/pod-records.js";
import type { ReadModel } from "../../state/read-model.js";
import { flushed } from "../../state/records.js";
import { createOrRecover, type ConflictOutcome } from "../../recovery/create-or-recover.js";
import { readLocalhostProfile } from "../localhost-profile.js";
import { releasePreviousAttempts } from "./release-previous-attempts.js";
import { removeSandbox } from "./remove-pod-sandbox.js";
import type { Handler, Services } from "../services.js";

/**
 * The steps are those of ARCHITECTURE.md, "The life of a pod". Each step registers its undo, and a failure
 * undoes all of them in reverse order. A repeated call gets the id of the sandbox that the first one made.
 */
export const runPodSandbox: Handler<"RunPodSandbox"> = async (request, services, call) => {
  const { namespace, name } = request.config.metadata;
  call.pod = `${namespace}/${name}`;
  try {
    const plan = await planWithInputs(request, services, call);
    // Step 2, second part: release previous attempts of the pod.
    await releasePreviousAttempts(plan.identity, services, call);
    // Step 3: take the lock of the pod's Docker name.
    const id = await services.locks.sandboxes.run(plan.name, call.signal, () =>
      run(plan, fingerprint(request), services, call),
    );
    return { pod_sandbox_id: id };
  } catch (error) {
    throw ShimError.from(error).within(`run sandbox for pod "${call.pod}"`, { pod: call.pod });
  }
};

async function planWithInputs(
  request: ValidRunPodSandbox,
  services: Services,
  call: Call,
): Promise<SandboxPlan> {
  // Step 1: wait for the engine, refuse an unknown runtime handler, ensure the pause image, read the node.
  const facts = await services.state.link.live(call.signal);
  dockerRuntime(request.runtime_handler, facts);
  const host = services.node.host();
  const [pauseImage, seccompProfile, loadedAppArmorProfiles] = await Promise.all([
    services.images.pause.ensure(call.signal),
    readLocalhostProfile(request.config.linux?.security_context, host),
    facts.security.apparmor ? host.loadedAppArmorProfiles() : undefined,
  ]);
  const users = request.config.linux?.security_context?.namespace_options?.userns_options;
  const oci =
    users?.mode === NamespaceMode.POD ? await services.node.ociRuntime.find(facts, call.signal) : "works";
  // Step 2: plan.
  return planSandbox(request, {
    facts,
    ociProblem: oci === "works" ? undefined : oci.problem,
    network: services.network,
    pauseImage,
    oomScoreAdj: (wanted) => services.node.oomScores.clamp(wanted),
    allowedAnnotations: services.settings.allowedAnnotations,
    composeLabels: services.settings.composeLabels ?? false,
    apiOnlyDns: !tries(host.reach, "files"),
    seccompProfile,
    loadedAppArmorProfiles,
  });
}

async function run(plan: SandboxPlan, requestHash: string, services: Services, call: Call): Promise<string> {
  const existing = findReady(requestHash, services);
  if (existing !== undefined) {
    call.log.info({ sandboxId: existing }, "sandbox of an equal request exists");
    return existing;
  }
  const { settings } = services;
  const { model } = services.state;
  const { pods: podRecords } = services.records;
  // Step 4: hide the sandbox from lists until the end.
  using hidden = model.hide(plan.name);
  await using rollback = new Rollback(call.log, settings.cleanUpTimeoutMs, call.signal);
  const attempt: Attempt = { rollback, hidden, isRemoved: false, holdsNetwork: false };

  const { id, snapshot } = await createAndStart(plan, requestHash, services, call, attempt);
  // Steps 9 and 10, side by side: rewrite resolv.conf, set up the network. The undo comes after both.
  const host = services.node.host();
  const [written, network] = await Promise.allSettled([
    plan.resolvConf === undefined ? undefined : host.writeResolvConf(snapshot, plan.resolvConf, call.signal),
    setUpNetwork(plan, snapshot, services, call, attempt),
  ]);
  if (written.status === "rejected") throw written.reason;
  if (network.status === "rejected") throw network.reason;
  const ips = network.value;

  // Step 11: wait for the flushes of step 6, write the pod record, forget the undos, show the sandbox in lists.
  await flushed(id, services.records, call.signal);
  call.signal.throwIfAborted();
  await podRecords.update(id, (record) => ({
    ...record,
    phase: "ready",
    network: {
      ...record.network,
      state: plan.networkRequest === undefined ? "none" : "ready",
      ips: ips ?? [],
    },
  }));
  rollback.commit();
  model.recordChanged(id);
  return id;
}

/** The ready sandbox that an equal request made, whose answer did not reach the caller. */
function findReady(
  requestHash: string,
  { state: { model }, records: { pods: podRecords } }: Services,
): string | undefined {
  for (const { id, ready } of model.sandboxes()) {
    if (ready && podRecords.get(id)?.requestHash === requestHash) return id;
  }
  return undefined;
}

const noLimits = { unified: {}, hugepages: [] };

/** The state of one run, and its undos. */
interface Attempt {
  readonly rollback: Rollback;
  readonly hidden: ReturnType<ReadModel["hide"]>;
  /** The engine has answered that the container is gone. */
  isRemoved: boolean;
  /** The set-up of the network was called, and its tear-down has not succeeded. */
  holdsNetwork: boolean;
}

/** Steps 5 to 8. */
async function createAndStart(
  plan: SandboxPlan,
  requestHash: string,
  services: Services,
  call: Call,
  attempt: Attempt,
): Promise<{ readonly id: string; readonly snapshot: Snapshot }> {
  const { engine } = services;
  const { sync } = services.state;
  const { pods: podRecords, containers: containerRecords, checkpoints } = services.records;
  const { oomScores } = services.node;
  const { rollback, hidden } = attempt;
  using _ = sync.changing(plan.name);
  // Step 5: create the container.
  const id = await createSandboxContainer(plan, services, call);
  hidden.created({
    id,
    name: plan.name,
    labels: plan.body.Labels,
    created: nowNanoseconds(),
    imageId: "",
    imageName: plan.body.Image,
    state: { running: false },
  });
  rollback.defer("forget removed sandbox", (signal) => forgetRemoved(id, attempt, services, signal));
  rollback.defer("remove sandbox container", async (signal) => {
    // The next tear-down of the network needs the namespace of this container.
    if (attempt.holdsNetwork) return;
    await sync.remove(id, { force: true }, signal);
    attempt.isRemoved = true;
  });
  call.signal.throwIfAborted();

  // Step 6: write the checkpoint and the pod record.
  await Promise.all([
    checkpoints.put(id, checkpointOf(plan)),
    podRecords.put(newRecord(id, plan, requestHash, services)),
    plan.oci === undefined
      ? undefined
      : containerRecords.put({ ...{ version: 1, containerId: id, cgroup: noLimits }, oci: plan.oci }),
  ]);

  // Step 7: start; where the host cannot lower OOM scores, create again with a clamped score.
  try {
    await engine.startContainer(id, call.signal);
  } catch (error) {
    const score = plan.body.HostConfig.OomScoreAdj ?? 0;
    if (!oomScores.learnFromFailure(score, error))
      throw (sysctlError(error) ?? ShimError.from(error)).within("start sandbox container");
    await sync.remove(id, { force: true }, call.signal);
    await forgetRemoved(id, { ...attempt, isRemoved: true }, services, call.signal);
    const clamped = { ...plan.body.HostConfig, OomScoreAdj: oomScores.clamp(score) };
    const retry = { ...plan, body: { ...plan.body, HostConfig: clamped } };
    return await createAndStart(retry, requestHash, services, call, attempt);
  }

  // Step 8: refresh the read model; the pause container must run.
  const snapshot = await sync.refresh(id, call.signal);
  if (snapshot?.state.running !== true) {
    const state =
      snapshot === undefined ? "gone" : `${snapshot.state.status} (exit code ${snapshot.state.exitCode})`;
    throw new ShimError(
      "precondition",
      `start sandbox container: the pause container is ${state} right after its start`,
    );
  }
  return { id, snapshot };
}

/**
 * Removes checkpoint and record of a sandbox whose container and network are gone. Otherwise both stay:
 * without the record, lists would show the sandbox as ready. The kubelet sees that it is not ready, and
 * removes it.
 */
async function forgetRemoved(
  id: string,
  { isRemoved, holdsNetwork }: Attempt,
  { state: { sync }, records: { pods: podRecords, checkpoints } }: Services,
  signal: AbortSignal,
): Promise<void> {
  // The engine has removed the container, so a failed inspect does not matter.
  const known = await sync.refresh(id, signal).catch((error: unknown) => {
    if (!isRemoved) throw error;
    return undefined;
  });
  if (known !== undefined || holdsNetwork) return;
  await Promise.all([checkpoints.remove(id), podRecords.remove(id)]);
}

async function createSandboxContainer(plan: SandboxPlan, services: Services, call: Call): Promise<string> {
  const { pause: pauseImages } = services.images;
  const create = (image: string): Promise<string> =>
    createOrRecover({ ...plan, body: { ...plan.body, Image: image } }, services, call, (conflictingId) =>
      removeConflicting(conflictingId, plan, services, call),
    );
  try {
    return await create(plan.body.Image);
  } catch (error) {
    if (!isKind(error, "notFound")) throw error;
    // The pause image was removed after the last check.
    pauseImages.invalidate();
    return create(await pauseImages.ensure(call.signal));
  }
}

/** Removes a dead sandbox of this name with its containers, network and files; never a running one. */
async function removeConflicting(
  conflictingId: string,
  plan: SandboxPlan,
  services: Services,
  call: Call,
): Promise<ConflictOutcome> {
  const conflicting = await services.state.sync.refresh(conflictingId, call.signal);
  if (conflicting === undefined) {
    const foreign = await services.engine.inspectContainer(conflictingId, call.signal);
    return foreign === undefined ? "removed" : "foreign";
  }
  if (conflicting.labels[typeLabel] !== sandboxType) return "foreign";
  const runs = services.state.model
    .containersOf(conflictingId)
    .some(({ snapshot }) => snapshot.state.running);
  if (conflicting.state.running || runs) {
    throw new ShimError("conflict", `a running sandbox already has the name "${plan.name}"`, {
      sandboxId: conflictingId,
    });
  }
  await removeSandbox(conflictingId, services, call);
  return "removed";
}

function checkpointOf({ checkpoint }: SandboxPlan): PodSandboxCheckpoint {
  const { name, namespace, hostNetwork, portMappings } = checkpoint;
  return {
    version: "v1",
    name,
    namespace,
    data: {
      ...(portMappings.length === 0 ? {} : { portMappings }),
      ...(hostNetwork ? { hostNetwork: true as const } : {}),
    },
  };
}

function newRecord(id: string, plan: SandboxPlan, requestHash: string, { network }: Services): PodRecord {
  return {
    version: 1,
    sandboxId: id,
    ...plan.identity,
    phase: "creating",
    runtimeHandler: plan.runtimeHandler,
    namespaces: plan.namespaces,
    network: {
      plugin: network.name,
      state: plan.networkRequest === undefined ? "none" : "settingUp",
      ips: [],
    },
    logDirectory: plan.logDirectory,
    cgroupParent: plan.cgroupParent,
    requestHash,
    ...(plan.resolvConf === undefined ? {} : { resolvConf: plan.resolvConf }),
    ...(plan.resources === undefined ? {} : { resources: plan.resources }),
  };
}

async function setUpNetwork(
  plan: SandboxPlan,
  snapshot: Snapshot,
  { network, node: { host } }: Services,
  call: Call,
  attempt: Attempt,
): Promise<readonly string[] | undefined> {
  if (plan.networkRequest === undefined) return undefined;
  const proven = host().proveNetworkNamespace(snapshot);
  using proof = proven?.proof;
  const namespace = proven && { netns: proven.netns, netnsIdentity: proven.netnsIdentity };
  const reference = { ...plan.networkRequest, sandboxId: snapshot.id };
  if (namespace === undefined && network.dockerNetworkMode === "none") {
    const reach = host().reach.jobs.networkNamespaces;
    const reason = reach.reached
      ? `process ${snapshot.state.pid}, which the engine names, is not provably that of the sandbox`
      : reach.reason;
    throw new ShimError(
      "unavailable",
      `set up pod network: the network namespace of the sandbox is out of reach: ${reason}`,
    );
  }
  attempt.holdsNetwork = true;
  attempt.rollback.defer("tear down pod network", async (signal) => {
    const setUpBy = network.name;
    await network.tearDownPod({ ...reference, ...namespace, unfinished: true, setUpBy }, signal);
    attempt.holdsNetwork = false;
  });
  const request = { ...reference, netns: "", ...namespace, ...(proof === undefined ? {} : { proof }) };
  return await network.setUpPod(request, call.signal);
}

/** Equal requests have equal fingerprints. The order of the entries of maps does not count. */
function fingerprint(request: ValidRunPodSandbox): string {
  const sorted = JSON.stringify(request, (_key, value: unknown) =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value,
  );
  return createHash("sha256").update(sorted).digest("hex");
}
