/** Carries out the actions of a pod, in the order of the kubelet's SyncPod (1.36). */
import { join } from "node:path";
import { ShimError, messageOf } from "../../lib/errors.js";
import type { Answer, ImageSpec } from "../../domain/cri.js";
import { podIps } from "./create-container.js";
import { sandboxConfig } from "../pod-config/cri-config.js";
import { logDirectory, logPath } from "../pod-config/pod-paths.js";
import { prepareCgroup } from "../node/prepare-cgroup.js";
import { prepareVolumes } from "../node/prepare-volumes.js";
import type { PodSpec } from "../manifests/pod-schema.js";
import type { Manifest } from "../manifests/read-manifests.js";
import type { BackOff } from "./back-off.js";
import { type KilledPod, ignoreMissing, killContainer, killPod } from "./kill-containers.js";
import {
  type ObservedContainer,
  type ObservedPod,
  type ObservedSandbox,
  podIpOf,
} from "../pod-rules/observed-pod.js";
import type { ContainerStart, PodActions } from "../pod-rules/pod-actions.js";
import type { Waiting } from "../pod-rules/status-types.js";
import { isSidecar } from "../pod-rules/restart-rules.js";
import type { PodDeps } from "./kubelet-deps.js";
import { StartFailure, loggedAttempts, startContainer } from "./start-container.js";

export interface SyncInput {
  readonly manifest: Manifest;
  readonly observed: ObservedPod;
  readonly actions: PodActions;
  readonly crashes: BackOff;
  readonly pulls: BackOff;
  /** See `PodOwner.starting`. Throws when another play has the pod meanwhile. */
  readonly starting: <T>(work: (isUnfinished: boolean) => Promise<T>) => Promise<T>;
  /** Filled, also before an error: by container, why its start has failed; undefined when it succeeded. */
  readonly starts: Map<string, Waiting | undefined>;
}

export interface SyncResult {
  /** Something was changed, so that the pod must be observed again. */
  readonly hasActed: boolean;
  /** Why containers could not be started, in order. */
  readonly failures: readonly StartFailure[];
}

/** Throws when the sandbox or a kill fails. */
export async function syncPod(input: SyncInput, deps: PodDeps, signal: AbortSignal): Promise<SyncResult> {
  const { manifest, observed, actions } = input;
  const { spec } = manifest.pod;
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
    for (const entry of actions.reset) {
      hasActed = true;
      await resetContainer(entry, pod, manifest, deps, signal);
    }
  }
  // After the kills: a limit below what is in use would be refused, or kill the pod.
  if (actions.createSandbox || actions.start.length > 0) await ensureCgroup(manifest, actions, deps);
  const sandbox = actions.createSandbox
    ? await input.starting(() => runSandbox(manifest, actions, deps, signal))
    : actions.sandbox;
  hasActed ||= actions.createSandbox;
  const failures = await startAll(input, sandbox, deps, signal);
  await remove(obsoleteContainers(observed), manifest, deps, signal);
  for (const { id } of obsoleteSandboxes(observed))
    await ignoreMissing(deps.client.removePodSandbox(id, signal));
  return { hasActed: hasActed || input.starts.size > failures.length, failures };
}

/** Before the sandbox, so that no process of the pod runs without the limits. */
async function ensureCgroup(manifest: Manifest, actions: PodActions, deps: PodDeps): Promise<void> {
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
  deps: PodDeps,
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
  sandbox: NewSandbox | undefined,
  deps: PodDeps,
  signal: AbortSignal,
): Promise<readonly StartFailure[]> {
  const failures: StartFailure[] = [];
  if (sandbox === undefined) return failures;
  const volumeImages = new Map<string, Answer<ImageSpec>>();
  const observed = { ...input.observed, ips: sandbox.ips ?? input.observed.ips };
  for (const start of input.actions.start) {
    const { name } = start.container;
    try {
      await startContainer({ ...input, observed, start, sandbox, volumeImages }, deps, signal);
      input.starts.set(name, undefined);
    } catch (error) {
      if (!(error instanceof StartFailure) || signal.aborted) throw error;
      input.starts.set(name, { reason: error.reason, message: error.message });
      failures.push(error);
      if (endsStarts(start)) break;
    }
  }
  return failures;
}

/** Nothing may start after an init container that could not be started. */
function endsStarts({ kind, container }: ContainerStart): boolean {
  return kind === "init" && !("restartPolicy" in container && isSidecar(container));
}

/** Removes a container, so that it starts as in a new pod. Of the logs of its name, the last one stays. */
async function resetContainer(
  entry: ObservedContainer,
  pod: KilledPod,
  manifest: Manifest,
  deps: PodDeps,
  signal: AbortSignal,
): Promise<void> {
  const { id, name, state, attempt } = entry;
  const how = { reason: "other", message: `Restarting all containers: ${name}`, graceSeconds: 0 } as const;
  if (state === "running" || state === "unknown") await killContainer(entry, pod, how, deps, signal);
  await ignoreMissing(deps.client.removeContainer(id, signal));
  const older = (await loggedAttempts(name, manifest, deps)).filter((logged) => logged < attempt);
  for (const logged of older) await removeLog(name, logged, manifest, deps);
}

async function removeLog(
  name: string,
  attempt: number,
  { key }: Manifest,
  { files, directories }: PodDeps,
): Promise<void> {
  await files.removeTree(join(logDirectory(directories, key), logPath(name, attempt)));
}

/** With their logs. */
async function remove(
  containers: readonly ObservedContainer[],
  manifest: Manifest,
  deps: PodDeps,
  signal: AbortSignal,
): Promise<void> {
  for (const { id, name, attempt } of containers) {
    await ignoreMissing(deps.client.removeContainer(id, signal));
    await removeLog(name, attempt, manifest, deps);
  }
}

/** Containers that have ended, or could not be started, but the newest of each name: the kubelet keeps one. */
function obsoleteContainers({ containers }: ObservedPod): readonly ObservedContainer[] {
  const seen = new Set<string>();
  return containers.filter(({ name, state }) => {
    if (state !== "exited" && state !== "created") return false;
    const isObsolete = seen.has(name);
    seen.add(name);
    return isObsolete;
  });
}

/** All init containers: they run again in a new sandbox. */
function initContainersOf(spec: PodSpec, { containers }: ObservedPod): readonly ObservedContainer[] {
  const names = new Set((spec.initContainers ?? []).map(({ name }) => name));
  return containers.filter(({ name }) => names.has(name));
}

/** Ended sandboxes without containers, but the newest. */
function obsoleteSandboxes({ sandboxes, containers }: ObservedPod): readonly ObservedSandbox[] {
  const used = new Set(containers.map(({ sandboxId }) => sandboxId));
  return sandboxes.slice(1).filter(({ id, isReady }) => !isReady && !used.has(id));
}
