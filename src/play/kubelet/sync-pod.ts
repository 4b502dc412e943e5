/** Carries out the actions of a pod, in the order of the kubelet's SyncPod (1.36). */
import { join } from "node:path";
import { ShimError, messageOf } from "../../lib/errors.js";
import type { Answer, ImageSpec } from "../../domain/cri.js";
import { podIps } from "./create-container.js";
import { sandboxConfig } from "../pod-config/cri-config.js";
import { logDirectory, logPath } from "../pod-config/pod-paths.js";
import { prepareCgroup } from "../node/prepare-cgroup.js";
import { prepareVolumes } from "../node/prepare-volumes.js";
import type { Manifest } from "../manifests/read-manifests.js";
import type { BackOff } from "./back-off.js";
import { initContainersOf, obsoleteContainers, obsoleteSandboxes } from "../pod-rules/dead-objects.js";
import { ignoreMissing, killContainer, killPod } from "./kill.js";
import {
  type ObservedContainer,
  type ObservedPod,
  type ObservedSandbox,
  podIpOf,
} from "../pod-rules/observed-pod.js";
import { type ContainerStart, type PodActions, podActions } from "../pod-rules/pod-actions.js";
import type { Waiting } from "../pod-rules/status-types.js";
import type { ProbeResults } from "../pod-rules/probe-results.js";
import { isSidecar } from "../pod-rules/restart-rules.js";
import { type StartDeps, StartFailure, startContainer } from "./start-container.js";

export interface SyncInput {
  readonly manifest: Manifest;
  readonly observed: ObservedPod;
  readonly probes: ProbeResults;
  readonly crashes: BackOff;
  readonly pulls: BackOff;
  /** Is kept up to date. */
  readonly waiting: Map<string, Waiting>;
  /**
   * See `PodOwner.starting`. Throws when another play has the pod meanwhile: a turn of several containers and
   * pulls takes long.
   */
  readonly starting: <T>(work: (isUnfinished: boolean) => Promise<T>) => Promise<T>;
}

export interface SyncResult {
  /** Something was changed, so that the pod must be observed again. */
  readonly hasActed: boolean;
  /** Of the containers that could not be started, in order. */
  readonly failures: readonly StartFailure[];
}

/** Throws when the sandbox or a kill fails. */
export async function syncPod(input: SyncInput, deps: StartDeps, signal: AbortSignal): Promise<SyncResult> {
  const { manifest, observed } = input;
  const { spec } = manifest.pod;
  const actions = podActions(manifest, observed, input.probes);
  const pod = { spec, podIp: podIpOf(spec, observed) };
  let hasActed = false;
  if (actions.killPod) {
    if (actions.createSandbox && observed.sandboxes.length > 0)
      deps.event("Normal", "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.");
    await killPod(observed, pod, deps, signal);
    if (actions.createSandbox) await remove(initContainersOf(spec, observed), manifest, deps, signal);
  } else {
    for (const { container, ...how } of actions.kill) {
      hasActed = true;
      await killContainer(container, pod, how, deps, signal);
    }
  }
  // After the kills: a limit below what is in use would be refused, or kill the pod.
  if (actions.createSandbox || actions.start.length > 0) await ensureCgroup(manifest, actions, deps);
  const sandbox = actions.createSandbox
    ? await input.starting(() => runSandbox(manifest, actions, deps, signal))
    : actions.sandbox;
  hasActed ||= actions.createSandbox;
  const { failures, started } = await startAll(input, actions, sandbox, deps, signal);
  await remove(obsoleteContainers(observed), manifest, deps, signal);
  for (const { id } of obsoleteSandboxes(observed))
    await ignoreMissing(deps.client.removePodSandbox(id, signal));
  return { hasActed: hasActed || started > 0, failures };
}

/** Before the sandbox, so that no process of the pod runs without the limits. */
async function ensureCgroup(manifest: Manifest, actions: PodActions, deps: StartDeps): Promise<void> {
  try {
    const missing = await prepareCgroup(manifest, deps);
    if (missing !== undefined && actions.createSandbox) deps.event("Warning", "NoPodCgroup", missing);
  } catch (error) {
    const { kind, fields } = ShimError.from(error, "unknown");
    const message = `make the cgroup of the pod: ${messageOf(error)}`;
    deps.event("Warning", "FailedToCreatePodContainer", message);
    throw new ShimError(kind, message, fields, { cause: error });
  }
}

interface NewSandbox extends Pick<ObservedSandbox, "id" | "attempt"> {
  readonly ips?: readonly string[];
}

/** Volumes and the log directory come before the sandbox. */
async function runSandbox(
  manifest: Manifest,
  { attempt }: PodActions,
  deps: StartDeps,
  signal: AbortSignal,
): Promise<NewSandbox> {
  const { key, pod } = manifest;
  const { client, files, directories, node } = deps;
  const from = deps.clock.now();
  try {
    await prepareVolumes(manifest, deps);
    await files.makeDirectory(logDirectory(directories, key));
    const config = sandboxConfig(manifest, attempt, node, directories);
    const id = await client.runPodSandbox(config, pod.spec.runtimeClassName ?? "", signal);
    const ips = podIps(await client.podSandboxStatus(id, signal));
    deps.event("Normal", "CreatedPodSandBox", "Created pod sandbox", undefined, from);
    return { id, attempt, ips };
  } catch (error) {
    const { kind, fields } = ShimError.from(error, "unknown");
    const message = `create the sandbox: ${messageOf(error)}`;
    if (!signal.aborted) deps.event("Warning", "FailedCreatePodSandBox", message, undefined, from);
    throw new ShimError(kind, message, fields, { cause: error });
  }
}

async function startAll(
  input: SyncInput,
  actions: PodActions,
  sandbox: NewSandbox | undefined,
  deps: StartDeps,
  signal: AbortSignal,
): Promise<{ readonly failures: readonly StartFailure[]; readonly started: number }> {
  const failures: StartFailure[] = [];
  let started = 0;
  if (sandbox === undefined) return { failures, started };
  const volumeImages = new Map<string, Answer<ImageSpec>>();
  const observed = { ...input.observed, ips: sandbox.ips ?? input.observed.ips };
  for (const start of actions.start) {
    const { name } = start.container;
    try {
      await startContainer({ ...input, observed, start, sandbox, volumeImages }, deps, signal);
      input.waiting.delete(name);
      started += 1;
    } catch (error) {
      if (!(error instanceof StartFailure) || signal.aborted) throw error;
      input.waiting.set(name, { reason: error.reason, message: error.message });
      failures.push(error);
      if (endsStarts(start)) break;
    }
  }
  return { failures, started };
}

/** Nothing may start after an init container that could not be started. */
function endsStarts({ kind, container }: ContainerStart): boolean {
  return kind === "init" && !("restartPolicy" in container && isSidecar(container));
}

/** With their logs. */
async function remove(
  containers: readonly ObservedContainer[],
  { key }: Manifest,
  { client, files, directories }: StartDeps,
  signal: AbortSignal,
): Promise<void> {
  for (const { id, name, attempt } of containers) {
    await ignoreMissing(client.removeContainer(id, signal));
    await files.removeTree(join(logDirectory(directories, key), logPath(name, attempt)));
  }
}
