/** Pods for the tests of the view. */
import { noProbeResults } from "../../../../src/play/pod-rules/probe-results.js";
import { podStatus } from "../../../../src/play/pod-rules/pod-status.js";
import type { ObservedPod } from "../../../../src/play/pod-rules/observed-pod.js";
import type { Waiting } from "../../../../src/play/pod-rules/status-types.js";
import type { ShownPod } from "../../../../src/play/view/pod-object.js";
import { observedPod, podWith } from "../fake-cri.js";

interface Rule {
  readonly waiting?: Readonly<Record<string, Waiting>>;
  readonly observed?: Partial<ObservedPod>;
  readonly now?: number;
}

/** A pod with these containers, as `observedContainers` reads them. It was started at 1 s. */
export async function shownPod(specLines: string, there: string, rule: Rule = {}): Promise<ShownPod> {
  const manifest = await podWith(specLines);
  const seen = observedPod(manifest, there, rule.observed);
  const containers = seen.containers.map((each) =>
    each.state === "exited" ? { ...each, reason: each.exitCode === 0 ? "Completed" : "Error" } : each,
  );
  const observed = { ...seen, containers };
  const memory = { startTime: 1000, waiting: new Map(Object.entries(rule.waiting ?? {})) };
  return { manifest, status: podStatus(manifest, observed, noProbeResults, memory, rule.now ?? 2000) };
}

/** Of a pod that was started: with the attempt, and the end before it. */
export function withRestarts(
  pod: ShownPod,
  container: string,
  restartCount: number,
  finishedAt: number,
): ShownPod {
  if (pod.status === undefined) return pod;
  const change = (each: (typeof pod.status.containerStatuses)[number]): typeof each =>
    each.name === container
      ? {
          ...each,
          restartCount,
          lastState: {
            terminated: { exitCode: 1, reason: "Error", startedAt: 1, finishedAt, containerID: "before" },
          },
        }
      : each;
  const { initContainerStatuses: init, containerStatuses: regular } = pod.status;
  return {
    ...pod,
    status: {
      ...pod.status,
      initContainerStatuses: init.map(change),
      containerStatuses: regular.map(change),
    },
  };
}
