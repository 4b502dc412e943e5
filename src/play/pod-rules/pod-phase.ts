/** The phase of a pod, by the rules of the kubelet's getPhase (1.36). Pure. */
import type { PodSpec } from "../manifests/pod-schema.js";
import { isSidecar, restartsAfter } from "./restart-rules.js";
import type { ContainerStatuses, ContainerStatusNow, Phase } from "./status-types.js";

export function podPhase(spec: PodSpec, statuses: ContainerStatuses, hasRegularInSandbox: boolean): Phase {
  const init = initCounts(spec, statuses.initContainerStatuses);
  if (init.failed > 0) return "Failed";

  let { running, waiting } = init;
  let restarting = 0;
  let failed = 0;
  statuses.containerStatuses.forEach(({ state, lastState }, index) => {
    const end = state.terminated ?? lastState.terminated;
    const container = spec.containers[index];
    if (state.running !== undefined) running += 1;
    else if (end === undefined || container === undefined) waiting += 1;
    else if (restartsAfter(spec, container, end.exitCode)) restarting += 1;
    else if (state.terminated?.exitCode !== 0) failed += 1;
  });
  if (init.pending > 0 || (init.pendingSidecars > 0 && !hasRegularInSandbox) || waiting > 0) return "Pending";
  if (running > 0 || restarting > 0) return "Running";
  return failed > 0 ? "Failed" : "Succeeded";
}

interface InitCounts {
  /** For good. */
  readonly failed: number;
  readonly pending: number;
  readonly pendingSidecars: number;
  readonly running: number;
  readonly waiting: number;
}

function initCounts(spec: PodSpec, statuses: readonly ContainerStatusNow[]): InitCounts {
  const counts = { failed: 0, pending: 0, pendingSidecars: 0, running: 0, waiting: 0 };
  (spec.initContainers ?? []).forEach((container, index) => {
    const status = statuses[index];
    const end = status?.state.terminated ?? status?.lastState.terminated;
    if (!isSidecar(container)) {
      if (end === undefined || status?.state.running !== undefined) counts.pending += 1;
      else if (end.exitCode !== 0 && !restartsAfter(spec, container, end.exitCode)) counts.failed += 1;
    } else if (status?.state.running !== undefined) {
      counts.running += 1;
      if (!status.started) counts.pendingSidecars += 1;
    } else if (end === undefined) {
      counts.pendingSidecars += 1;
      counts.waiting += 1;
    }
  });
  return counts;
}
