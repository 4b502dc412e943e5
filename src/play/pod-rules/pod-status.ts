/** The status of a pod and of its containers, by the rules of the kubelet (1.36). Pure. */
import type { Container, EphemeralContainer, PodSpec } from "../manifests/pod-schema.js";
import type { Manifest } from "../manifests/read-manifests.js";
import { hasRegularContainer } from "./pod-actions.js";
import { type ObservedContainer, type ObservedPod, newestContainer } from "./observed-pod.js";
import { podConditions } from "./pod-conditions.js";
import { podPhase } from "./pod-phase.js";
import type { ProbeResults } from "./probe-results.js";
import { isSidecar, shouldRun } from "./restart-rules.js";
import type { ContainerStateNow, ContainerStatusNow, PodStatus, Waiting } from "./status-types.js";

/** What is remembered of a pod. */
export interface PodMemory {
  readonly startTime: number;
  /** By container: why its last start did not succeed. */
  readonly waiting: ReadonlyMap<string, Waiting>;
  /** A pod that has ended stays so. */
  readonly ended?: Pick<PodStatus, "phase" | "reason" | "message">;
}

export function podStatus(
  { pod: { spec } }: Manifest,
  observed: ObservedPod,
  probes: ProbeResults,
  memory: PodMemory,
  now: number,
): PodStatus {
  const view = (container: Container | EphemeralContainer, kind: "init" | "other"): ContainerStatusNow =>
    containerStatus(container, kind, spec, observed, probes, memory);
  const statuses = {
    initContainerStatuses: (spec.initContainers ?? []).map((container) => view(container, "init")),
    containerStatuses: spec.containers.map((container) => view(container, "other")),
    ephemeralContainerStatuses: (spec.ephemeralContainers ?? []).map((one) => view(one, "other")),
  };
  const ownPhase = podPhase(spec, statuses, hasRegularInSandbox(spec, observed));
  // What has ended by itself is past its deadline, whenever that is looked at.
  const end =
    memory.ended ?? (hasEnded({ phase: ownPhase }) ? undefined : deadlineEnd(spec, memory.startTime, now));
  const phase = end?.phase ?? ownPhase;
  return {
    phase,
    ...(end?.reason === undefined ? {} : { reason: end.reason }),
    ...(end?.message === undefined ? {} : { message: end.message }),
    conditions: podConditions(spec, observed, statuses, phase),
    podIPs: observed.ips,
    startTime: memory.startTime,
    ...statuses,
  };
}

export function hasEnded({ phase }: Pick<PodStatus, "phase">): boolean {
  return phase === "Succeeded" || phase === "Failed";
}

/** A pod that has succeeded needs nothing more. */
export function podIsReady({ phase, conditions }: Pick<PodStatus, "phase" | "conditions">): boolean {
  return (
    phase === "Succeeded" || conditions.some(({ type, status }) => type === "Ready" && status === "True")
  );
}

/** When activeDeadlineSeconds end the pod, in milliseconds since 1970. */
export function deadlineOf(spec: PodSpec, startTime: number): number {
  return startTime + (spec.activeDeadlineSeconds ?? Infinity) * 1000;
}

function deadlineEnd(spec: PodSpec, startTime: number, now: number): PodMemory["ended"] {
  if (now < deadlineOf(spec, startTime)) return undefined;
  const message = "Pod was active on the node longer than the specified deadline";
  return { phase: "Failed", reason: "DeadlineExceeded", message };
}

/** Whether the present sandbox has a regular container. */
function hasRegularInSandbox(spec: PodSpec, observed: ObservedPod): boolean {
  const sandbox = observed.sandboxes.find(({ isReady }) => isReady);
  return spec.containers.some(({ name }) => {
    const entry = newestContainer(observed, name);
    return entry !== undefined && entry.sandboxId === sandbox?.id;
  });
}

function containerStatus(
  container: Container | EphemeralContainer,
  kind: "init" | "other",
  spec: PodSpec,
  observed: ObservedPod,
  probes: ProbeResults,
  memory: PodMemory,
): ContainerStatusNow {
  const own = observed.containers.filter(({ name }) => name === container.name);
  const [entry, previous] = own;
  const sidecar = kind === "init" && isSidecar(container);
  const observedState = entry === undefined ? undefined : stateOf(entry);
  let state = observedState ?? missingState(spec, observed, { isInit: kind === "init", isSidecar: sidecar });
  let lastState = previous === undefined ? {} : endOf(previous);
  const waiting = memory.waiting.get(container.name);
  const hasEndedWell = kind === "init" && !sidecar && state.terminated?.exitCode === 0;
  if (
    waiting !== undefined &&
    !hasEndedWell &&
    (sidecar ? !state.running : shouldRun(spec, container, entry))
  ) {
    if (state.terminated !== undefined) lastState = state;
    state = { waiting };
  }
  const startup = entry === undefined ? undefined : probes.get("startup", entry.id);
  const started =
    state.running !== undefined && (container.startupProbe === undefined || startup === "success");
  const readiness = entry === undefined ? undefined : probes.get("readiness", entry.id);
  const isReady = started && (container.readinessProbe === undefined || readiness === "success");
  return {
    name: container.name,
    containerID: entry?.id ?? "",
    image: container.image,
    imageID: entry?.imageId ?? "",
    restartCount: entry?.attempt ?? 0,
    state,
    lastState,
    started,
    ready: kind === "init" && !sidecar ? state.terminated?.exitCode === 0 : isReady,
  };
}

function stateOf(entry: ObservedContainer): ContainerStateNow {
  if (entry.state === "running") return { running: { startedAt: entry.startedAt } };
  return entry.state === "exited" ? endOf(entry) : { waiting: { reason: "ContainerCreating" } };
}

function endOf(entry: ObservedContainer): ContainerStateNow {
  if (entry.state !== "exited") return {};
  const { exitCode, reason, message, startedAt, finishedAt, id } = entry;
  const text = message === "" ? {} : { message };
  return { terminated: { exitCode, reason, ...text, startedAt, finishedAt, containerID: id } };
}

/** The state of a container that the CRI does not show. */
function missingState(
  spec: PodSpec,
  observed: ObservedPod,
  { isInit, isSidecar }: { readonly isInit: boolean; readonly isSidecar: boolean },
): ContainerStateNow {
  if (isInit && !isSidecar && hasRegularContainer(spec, observed)) {
    const end = { exitCode: 0, reason: "Completed", startedAt: 0, finishedAt: 0, containerID: "" };
    return { terminated: end };
  }
  const hasInit = (spec.initContainers ?? []).length > 0;
  return { waiting: { reason: hasInit ? "PodInitializing" : "ContainerCreating" } };
}
