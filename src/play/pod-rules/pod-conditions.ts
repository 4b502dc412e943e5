/** The conditions of a pod, as the kubelet generates them. Pure. */
import type { Container, PodSpec } from "../manifests/pod-schema.js";
import type { ObservedPod } from "./observed-pod.js";
import { isSidecar } from "./restart-rules.js";
import type { Condition, ContainerStatuses, Phase } from "./status-types.js";

type Verdict = Omit<Condition, "type">;

export function podConditions(
  spec: PodSpec,
  observed: ObservedPod,
  statuses: ContainerStatuses,
  phase: Phase,
): readonly Condition[] {
  const ready = containersReady(spec, statuses, phase);
  const hasSandbox = observed.sandboxes[0]?.isReady === true;
  return [
    { type: "PodReadyToStartContainers", status: hasSandbox ? "True" : "False" },
    { type: "Initialized", ...initialized(spec, statuses, phase) },
    { type: "Ready", ...ready },
    { type: "ContainersReady", ...ready },
    { type: "PodScheduled", status: "True" },
  ];
}

function initialized(spec: PodSpec, statuses: ContainerStatuses, phase: Phase): Verdict {
  if (phase === "Succeeded") return { status: "True", reason: "PodCompleted" };
  const hasRun = statuses.containerStatuses.some(
    ({ state }) => state.running !== undefined || state.terminated !== undefined,
  );
  if (hasRun) return { status: "True" };
  const isPending = (container: Container, index: number): boolean => {
    const status = statuses.initContainerStatuses[index];
    return isSidecar(container) ? status?.started !== true : status?.ready !== true;
  };
  const pending = (spec.initContainers ?? []).filter(isPending).map(({ name }) => name);
  if (pending.length === 0) return { status: "True" };
  const message = `containers with incomplete status: [${pending.join(" ")}]`;
  return { status: "False", reason: "ContainersNotInitialized", message };
}

function containersReady(spec: PodSpec, statuses: ContainerStatuses, phase: Phase): Verdict {
  if (phase === "Succeeded") return { status: "False", reason: "PodCompleted" };
  if (phase === "Failed") return { status: "False", reason: "PodFailed" };
  const sidecars = statuses.initContainerStatuses.filter((_, index) => {
    const container = spec.initContainers?.[index];
    return container !== undefined && isSidecar(container);
  });
  const pending = [...sidecars, ...statuses.containerStatuses].filter(({ ready }) => !ready);
  if (pending.length === 0) return { status: "True" };
  const message = `containers with unready status: [${pending.map(({ name }) => name).join(" ")}]`;
  return { status: "False", reason: "ContainersNotReady", message };
}
