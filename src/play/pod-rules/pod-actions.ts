/** What must happen to a pod: the rules of the kubelet's computePodActions (1.36). Pure. */
import type { Container, EphemeralContainer, PodSpec } from "../manifests/pod-schema.js";
import type { Manifest } from "../manifests/read-manifests.js";
import { containerHash } from "../pod-config/hashes.js";
import { initActions } from "./init-containers.js";
import {
  type ObservedContainer,
  type ObservedPod,
  type ObservedSandbox,
  newestContainer,
} from "./observed-pod.js";
import type { ProbeResults } from "./probe-results.js";
import {
  type ContainerKill,
  type KillReason,
  policyOf,
  restartPolicyOf,
  restartsAll,
  shouldRun,
  unknownKill,
} from "./restart-rules.js";

export type ContainerKind = "ephemeral" | "init" | "regular";

export interface ContainerStart {
  readonly kind: ContainerKind;
  readonly container: Container | EphemeralContainer;
}

export interface PodActions {
  /** Stop all containers and all sandboxes of the pod. */
  readonly killPod: boolean;
  readonly createSandbox: boolean;
  /** The sandbox for the starts; undefined when a new one is needed. */
  readonly sandbox: ObservedSandbox | undefined;
  /** The attempt of the present or of the new sandbox. */
  readonly attempt: number;
  readonly kill: readonly ContainerKill[];
  /** To remove in this order, and to end before, so that all containers start anew (RestartAllContainers). */
  readonly reset: readonly ObservedContainer[];
  /** In order. An init container that cannot be started ends the list, unless it is a sidecar. */
  readonly start: readonly ContainerStart[];
}

export function podActions(manifest: Manifest, observed: ObservedPod, probes: ProbeResults): PodActions {
  const { spec } = manifest.pod;
  const change = sandboxChange(spec, observed);
  if (change.isNeeded) {
    const { create, start } = freshStart(spec, observed, change.attempt);
    return {
      killPod: true,
      createSandbox: create,
      sandbox: undefined,
      attempt: change.attempt,
      kill: [],
      reset: [],
      start,
    };
  }
  const reset = containersToReset(spec, observed);
  const ephemeral = (spec.ephemeralContainers ?? [])
    // They are never restarted.
    .filter(({ name }) => newestContainer(observed, name) === undefined)
    .map((container) => ({ kind: "ephemeral", container }) as const);
  const base = { createSandbox: false, sandbox: observed.sandboxes[0], attempt: change.attempt, reset };
  if (reset.length > 0) return { ...base, killPod: false, kill: [], start: [] };
  const init = initActions(spec, observed, probes);
  const initStarts = init.start.map((container) => ({ kind: "init", container }) as const);
  if (init.killPod) return { ...base, killPod: true, kill: [], start: [] };
  if (!init.isInitialized)
    return { ...base, killPod: false, kill: init.kill, start: [...ephemeral, ...initStarts] };

  const { kept, kill, start } = regularActions(spec, observed, probes);
  // Nothing runs and nothing will: the sidecars end, too.
  const hasEnded = kept === 0 && start.length === 0;
  return {
    ...base,
    killPod: hasEnded,
    kill: [...init.kill, ...kill],
    start: hasEnded ? [] : [...ephemeral, ...initStarts, ...start],
  };
}

/** Whether a container has ended for good and is another one in the manifest. `hasEnded`: of the pod. */
export function hasEndedChanged(
  spec: PodSpec,
  observed: ObservedPod,
  { hasEnded }: { readonly hasEnded: boolean },
): boolean {
  const { containers, initContainers = [] } = spec;
  return [...containers, ...(hasEnded ? initContainers : [])].some((container) => {
    const entry = newestContainer(observed, container.name);
    if (entry?.state !== "exited" || entry.hash === containerHash(container)) return false;
    return hasEnded || !shouldRun(spec, container, entry);
  });
}

/** The kubelet's PodSandboxChanged. */
function sandboxChange(
  spec: PodSpec,
  { sandboxes, lacksIp }: ObservedPod,
): { readonly isNeeded: boolean; readonly attempt: number } {
  const [newest] = sandboxes;
  if (newest === undefined) return { isNeeded: true, attempt: 0 };
  const ready = sandboxes.filter(({ isReady }) => isReady).length;
  const isUsable = ready === 1 && newest.isReady && (spec.hostNetwork === true || !lacksIp);
  return isUsable
    ? { isNeeded: false, attempt: newest.attempt }
    : { isNeeded: true, attempt: newest.attempt + 1 };
}

/** All containers when the end of one restarts all; those that have ended so are the last. */
function containersToReset(
  { containers, initContainers = [] }: PodSpec,
  observed: ObservedPod,
): readonly ObservedContainer[] {
  const all = [...containers, ...initContainers];
  const isSource = (entry: ObservedContainer): boolean =>
    all.some((container) => container.name === entry.name && restartsAll(container, entry));
  if (!all.some(({ name }) => [newestContainer(observed, name)].some((entry) => entry && isSource(entry))))
    return [];
  const found = all.flatMap(({ name }) => observed.containers.filter((entry) => entry.name === name));
  return [...found.filter((entry) => !isSource(entry)), ...found.filter(isSource)];
}

/** Whether a new sandbox is worth while, and which containers come first in it. */
function freshStart(
  spec: PodSpec,
  observed: ObservedPod,
  attempt: number,
): { readonly create: boolean; readonly start: readonly ContainerStart[] } {
  const policy = restartPolicyOf(spec);
  // A pod that never got a container is tried again whatever its policy is.
  if (policy === "Never" && attempt !== 0 && observed.containers.length > 0)
    return { create: false, start: [] };
  const regular = spec.containers.filter(
    (container) =>
      policyOf(spec, container) !== "OnFailure" || !hasSucceeded(newestContainer(observed, container.name)),
  );
  if (regular.length === 0 && hasRegularContainer(spec, observed)) return { create: false, start: [] };
  const [firstInit] = spec.initContainers ?? [];
  if (firstInit !== undefined) return { create: true, start: [{ kind: "init", container: firstInit }] };
  return { create: true, start: regular.map((container) => ({ kind: "regular", container })) };
}

function regularActions(
  spec: PodSpec,
  observed: ObservedPod,
  probes: ProbeResults,
): {
  readonly kept: number;
  readonly kill: readonly ContainerKill[];
  readonly start: readonly ContainerStart[];
} {
  let kept = 0;
  const kill: ContainerKill[] = [];
  const start: ContainerStart[] = [];
  for (const container of spec.containers) {
    const entry = newestContainer(observed, container.name);
    if (entry?.state !== "running") {
      if (!shouldRun(spec, container, entry)) continue;
      start.push({ kind: "regular", container });
      if (entry?.state === "unknown") kill.push(unknownKill(entry, "Container"));
      continue;
    }
    const failure = regularFailure(container, entry, probes);
    if (failure === undefined) {
      kept += 1;
      continue;
    }
    const restarts = failure.always || policyOf(spec, container) !== "Never";
    const { reason } = failure;
    const message = restarts ? `${failure.message}, will be restarted` : failure.message;
    if (restarts) start.push({ kind: "regular", container });
    kill.push({ container: entry, reason, message });
  }
  return { kept, kill, start };
}

interface Failure {
  readonly reason: KillReason;
  readonly message: string;
  /** Restarted whatever the restartPolicy is. */
  readonly always: boolean;
}

function regularFailure(
  container: Container,
  { id, hash }: ObservedContainer,
  probes: ProbeResults,
): Failure | undefined {
  const subject = `Container ${container.name}`;
  if (hash !== containerHash(container))
    return { reason: "other", message: `${subject} definition changed`, always: true };
  if (probes.get("liveness", id) === "failure")
    return { reason: "livenessProbe", message: `${subject} failed liveness probe`, always: false };
  if (probes.get("startup", id) === "failure")
    return { reason: "startupProbe", message: `${subject} failed startup probe`, always: false };
  return undefined;
}

function hasSucceeded(entry: ObservedContainer | undefined): boolean {
  return entry?.state === "exited" && entry.exitCode === 0;
}

/** If so, all init containers have ended once, whatever is left of them. */
export function hasRegularContainer(spec: PodSpec, observed: ObservedPod): boolean {
  return spec.containers.some(({ name }) => newestContainer(observed, name) !== undefined);
}
