import { createHash } from "node:crypto";
import type { Call } from "../../lib/call.js";
import { isKind, ShimError } from "../../lib/errors.js";
import { Rollback } from "../../lib/rollback.js";
import type { Answer, RunPodSandboxResponse } from "../../domain/cri.js";
import { sandboxType, typeLabel } from "../../domain/labels.js";
import type { ValidRunPodSandbox } from "../../domain/requests.js";
import type { Snapshot } from "../../domain/snapshot.js";
import { dockerRuntime } from "../../plan/runtime-handler.js";
import type { SandboxPlan } from "../../plan/sandbox-plan.js";
import { planSandbox } from "../../plan/sandbox-plan.js";
import { sysctlError } from "../../plan/sysctls.js";
import type { PodSandboxCheckpoint } from "../../ports/checkpoint-store.js";
import type { PodRecord } from "../../state/pod-records.js";
import { createOrRecover } from "../../recovery/create-or-recover.js";
import type { ConflictOutcome } from "../../recovery/create-or-recover.js";
import { readLocalhostProfile } from "../localhost-profile.js";
import { releaseDeadAttempts } from "./release-previous-attempts.js";
import { removeSandbox } from "./remove-pod-sandbox.js";
import type { Services } from "../services.js";

/**
 *     ensure pause image → plan → release dead attempts → create → record + checkpoint → start → resolv.conf → network → ready
 *
 * Every step registers its undo, and a failure undoes all of them in reverse order. The sandbox is in no list until it
 * is ready. Safe to retry: a call that repeats one that succeeded gets the id of the sandbox that it made.
 */
export async function runPodSandbox(
  request: ValidRunPodSandbox,
  services: Services,
  call: Call,
): Promise<Answer<RunPodSandboxResponse>> {
  const { namespace, name } = request.config.metadata;
  call.pod = `${namespace}/${name}`;
  try {
    const plan = await planWithInputs(request, services, call);
    await releaseDeadAttempts(plan.identity, services, call);
    const id = await services.locks.sandboxes.run(plan.name, call.signal, () =>
      run(plan, fingerprint(request), services, call),
    );
    return { pod_sandbox_id: id };
  } catch (error) {
    throw ShimError.from(error).within(`run sandbox for pod "${call.pod}"`, { pod: call.pod });
  }
}

async function planWithInputs(
  request: ValidRunPodSandbox,
  services: Services,
  call: Call,
): Promise<SandboxPlan> {
  const facts = await services.state.link.live(call.signal);
  // A handler that nobody knows is refused before anything is pulled for it.
  dockerRuntime(request.runtime_handler, facts);
  const host = services.node.host();
  const [pauseImage, seccompProfile, loadedAppArmorProfiles] = await Promise.all([
    services.images.pause.ensure(call.signal),
    readLocalhostProfile(request.config.linux?.security_context, host),
    facts.security.apparmor ? host.loadedAppArmorProfiles() : undefined,
  ]);
  return planSandbox(request, {
    facts,
    network: services.network,
    pauseImage,
    oomScoreAdj: (wanted) => services.node.oomScores.clamp(wanted),
    allowedAnnotations: services.settings.allowedAnnotations,
    apiOnlyDns: !host.local,
    seccompProfile,
    loadedAppArmorProfiles,
  });
}

async function run(plan: SandboxPlan, requestHash: string, services: Services, call: Call): Promise<string> {
  const earlier = findEarlier(requestHash, services);
  if (earlier !== undefined) {
    call.log.info({ sandboxId: earlier }, "an equal earlier request made this sandbox, which runs");
    return earlier;
  }
  const { settings } = services;
  const { model } = services.state;
  const { pods: podRecords } = services.records;
  using hidden = model.hide(plan.name);
  await using rollback = new Rollback(call.log, settings.cleanUpTimeoutMs);
  const attempt: Attempt = { rollback, hidden, isRemoved: false, holdsNetwork: false };

  const { id, snapshot } = await createAndStart(plan, requestHash, services, call, attempt);
  const host = services.node.host();
  if (plan.resolvConf !== undefined) await host.writeResolvConf(snapshot, plan.resolvConf, call.signal);
  const ips = await setUpNetwork(plan, snapshot, services, call, attempt);

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

/** The sandbox that an equal request made before, when it is ready: its answer was lost on the way to the caller. */
function findEarlier(
  requestHash: string,
  { state: { model }, records: { pods: podRecords } }: Services,
): string | undefined {
  for (const { id, ready } of model.sandboxes()) {
    if (ready && podRecords.get(id)?.requestHash === requestHash) return id;
  }
  return undefined;
}

/** What one run has done so far, and how it is undone. */
interface Attempt {
  readonly rollback: Rollback;
  readonly hidden: { setId(id: string): void };
  /** The engine has said that the container is gone. */
  isRemoved: boolean;
  /** The network was asked for, and has not been released. */
  holdsNetwork: boolean;
}

interface Started {
  readonly id: string;
  readonly snapshot: Snapshot;
}

async function createAndStart(
  plan: SandboxPlan,
  requestHash: string,
  services: Services,
  call: Call,
  attempt: Attempt,
): Promise<Started> {
  const { engine } = services;
  const { sync } = services.state;
  const { pods: podRecords, checkpoints } = services.records;
  const { oomScores } = services.node;
  const { rollback, hidden } = attempt;
  const id = await createSandboxContainer(plan, services, call);
  hidden.setId(id);
  rollback.defer("forget removed sandbox", (signal) => forgetRemoved(id, attempt, services, signal));
  rollback.defer("remove sandbox container", async (signal) => {
    // As long as the network could not be released, its namespace is needed to release it.
    if (attempt.holdsNetwork) return;
    await engine.removeContainer(id, { force: true }, signal);
    attempt.isRemoved = true;
  });
  call.signal.throwIfAborted();

  await Promise.all([
    checkpoints.put(id, checkpointOf(plan)),
    podRecords.put(newRecord(id, plan, requestHash, services)),
  ]);

  try {
    await engine.startContainer(id, call.signal);
  } catch (error) {
    const score = plan.body.HostConfig.OomScoreAdj ?? 0;
    if (!oomScores.learnFromFailure(score, error))
      throw (sysctlError(error) ?? ShimError.from(error)).within("start sandbox container");
    await engine.removeContainer(id, { force: true }, call.signal);
    await forgetRemoved(id, { ...attempt, isRemoved: true }, services, call.signal);
    const clamped = { ...plan.body.HostConfig, OomScoreAdj: oomScores.clamp(score) };
    const retry = { ...plan, body: { ...plan.body, HostConfig: clamped } };
    return createAndStart(retry, requestHash, services, call, attempt);
  }
  const snapshot = await sync.refresh(id, call.signal);
  if (snapshot?.state.running !== true) {
    const state =
      snapshot === undefined
        ? "gone"
        : `${snapshot.state.status} (exit code ${String(snapshot.state.exitCode)})`;
    throw new ShimError(
      "unknown",
      `start sandbox container: the pause container is ${state} right after its start`,
    );
  }
  return { id, snapshot };
}

/**
 * Forgets a sandbox that was undone. One that could not be undone keeps its record, or it would be taken for a ready
 * one, and its checkpoint: so the kubelet is shown a sandbox that is not ready, and removes it.
 */
async function forgetRemoved(
  id: string,
  { isRemoved, holdsNetwork }: Attempt,
  { state: { sync }, records: { pods: podRecords, checkpoints } }: Services,
  signal: AbortSignal,
): Promise<void> {
  // Of use when an inspect fails now: it is removed all the same.
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
    // The pause image was removed since it was last seen.
    pauseImages.invalidate();
    return create(await pauseImages.ensure(call.signal));
  }
}

/** A dead sandbox of this name is removed with all that belongs to it; one that runs never is. */
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
    throw new ShimError("conflict", `a sandbox that runs already has the name "${plan.name}"`, {
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
  const namespace = host().networkNamespace(snapshot);
  const reference = { ...plan.networkRequest, sandboxId: snapshot.id };
  if (namespace === undefined && network.dockerNetworkMode === "none") {
    throw new ShimError(
      "unavailable",
      "set up pod network: the network namespace of the sandbox is out of reach",
    );
  }
  attempt.holdsNetwork = true;
  attempt.rollback.defer("tear down pod network", async (signal) => {
    await network.tearDownPod({ ...reference, ...namespace, unfinished: true }, signal);
    attempt.holdsNetwork = false;
  });
  return network.setUpPod({ ...reference, netns: "", ...namespace }, call.signal);
}

/** Equal requests have equal fingerprints, in whatever order a client sends the entries of maps. */
function fingerprint(request: ValidRunPodSandbox): string {
  const sorted = JSON.stringify(request, (_key, value: unknown) =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value,
  );
  return createHash("sha256").update(sorted).digest("hex");
}
