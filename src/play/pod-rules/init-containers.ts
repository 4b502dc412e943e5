/** Init containers and sidecars: the rules of the kubelet's computeInitContainerActions (1.36). Pure. */
import type { Container, PodSpec } from "../manifests/pod-schema.js";
import { containerHash } from "../pod-config/hashes.js";
import { type ObservedContainer, type ObservedPod, newestContainer } from "./observed-pod.js";
import type { ProbeResults } from "./probe-results.js";
import { type ContainerKill, isSidecar, policyOf, restartsAfter, unknownKill } from "./restart-rules.js";

export interface InitActions {
  /** The regular containers may run. */
  readonly isInitialized: boolean;
  /** An init container has failed for good. */
  readonly killPod: boolean;
  readonly kill: readonly ContainerKill[];
  /** In the manifest's order. */
  readonly start: readonly Container[];
}

export function initActions(spec: PodSpec, observed: ObservedPod, probes: ProbeResults): InitActions {
  const containers = spec.initContainers ?? [];
  if (containers.length === 0) return { isInitialized: true, killPod: false, kill: [], start: [] };

  // A regular container of this sandbox proves that the init containers have ended, even when they were
  // removed since. One that has exited proves nothing: it may be of the sandbox before.
  let isInitialized = spec.containers.some(({ name }) => {
    const state = newestContainer(observed, name)?.state;
    return state === "created" || state === "running";
  });
  /** Whether a later init container shows that this one has ended or, as a sidecar, has started. */
  let isPassed = isInitialized;
  const kill: ContainerKill[] = [];
  const starts = new Set<number>();
  // From the last to the first: only the last one that is there says how far the pod has come.
  for (let index = containers.length - 1; index >= 0; index -= 1) {
    const container = containers[index];
    if (container === undefined) continue;
    const entry = newestContainer(observed, container.name);
    if (entry === undefined) {
      if (isPassed && isSidecar(container)) starts.add(index);
      continue;
    }
    if (isPassed && !isSidecar(container)) continue;
    const verdict = isSidecar(container)
      ? judgeSidecar(container, entry, probes)
      : judgeInit(spec, container, entry);
    if (verdict.fails) return { isInitialized: false, killPod: true, kill, start: [] };
    if (verdict.isDone) {
      if (index === containers.length - 1) isInitialized = true;
      else if (!isPassed) starts.add(index + 1);
    }
    if (verdict.kill !== undefined) kill.push(verdict.kill);
    if (verdict.starts) starts.add(index);
    isPassed = true;
  }
  if (!isPassed) starts.add(0);
  const start = containers.filter((_, index) => starts.has(index));
  return { isInitialized, killPod: false, kill, start };
}

interface Verdict {
  /** The next init container may start. */
  readonly isDone?: boolean;
  readonly starts?: boolean;
  readonly kill?: ContainerKill;
  readonly fails?: boolean;
}

function judgeInit(spec: PodSpec, container: Container, entry: ObservedContainer): Verdict {
  switch (entry.state) {
    case "created":
      // Its start has failed.
      return { starts: true };
    case "running":
      return {};
    case "exited":
      if (entry.exitCode === 0) return { isDone: true };
      return restartsAfter(spec, container, entry.exitCode) ? { starts: true } : { fails: true };
    case "unknown":
      return policyOf(spec, container) !== "Never"
        ? { starts: true, kill: unknownKill(entry, "Init container") }
        : { fails: true };
  }
}

function judgeSidecar(container: Container, entry: ObservedContainer, probes: ProbeResults): Verdict {
  if (entry.state === "unknown") return { starts: true, kill: unknownKill(entry, "Init container") };
  if (entry.state !== "running") return { starts: true };
  const restart = (reason: ContainerKill["reason"], what: string): Verdict => ({
    starts: true,
    kill: { container: entry, reason, message: `Init container ${container.name} ${what}` },
  });
  if (container.startupProbe !== undefined) {
    const startup = probes.get("startup", entry.id);
    if (startup === "failure") return restart("startupProbe", "failed startup probe");
    if (startup !== "success") return {};
  }
  if (entry.hash !== containerHash(container))
    return { isDone: true, ...restart("other", "definition changed") };
  if (container.livenessProbe !== undefined && probes.get("liveness", entry.id) === "failure")
    return { isDone: true, ...restart("livenessProbe", "failed liveness probe") };
  return { isDone: true };
}
