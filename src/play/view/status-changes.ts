/** What has happened to a pod between two of its statuses, as lines. The kubelet has no events for it. Pure. */
import { describeExit } from "../pod-rules/observed-pod.js";
import type { ContainerStatuses, PodStatus, Terminated } from "../pod-rules/status-types.js";

export interface StatusChange {
  readonly text: string;
  readonly isWarning: boolean;
}

export function statusChanges(before: PodStatus | undefined, after: PodStatus): readonly StatusChange[] {
  const known = new Set(before === undefined ? [] : endsOf(before).map(({ end }) => end.containerID));
  const ends = before === undefined ? [] : endsOf(after);
  const changes: StatusChange[] = ends
    .filter(({ end }) => !known.has(end.containerID))
    .map(({ name, end }) => ({
      text: `container ${name} ended with ${describeExit({ ...end, message: end.message ?? "" }).trim()}`,
      isWarning: end.exitCode !== 0,
    }));
  if (before?.phase !== after.phase) {
    if (after.phase === "Succeeded") changes.push({ text: "has succeeded", isWarning: false });
    const why = after.message === undefined ? "" : `: ${after.message}`;
    if (after.phase === "Failed") changes.push({ text: `has failed${why}`, isWarning: true });
  }
  const wasReady = before !== undefined && readyOf(before)?.status === "True";
  const now = readyOf(after);
  if (now?.status === "True" && !wasReady) changes.push({ text: "is ready", isWarning: false });
  if (now?.status === "False" && wasReady && (after.phase === "Running" || after.phase === "Pending"))
    changes.push({ text: `is no longer ready: ${now.message ?? now.reason ?? ""}`, isWarning: true });
  return changes;
}

export function readyOf({ conditions }: PodStatus): PodStatus["conditions"][number] | undefined {
  return conditions.find(({ type }) => type === "Ready");
}

/** All containers, in the order in which they start. */
export function allStatuses(statuses: ContainerStatuses): ContainerStatuses["containerStatuses"] {
  const { initContainerStatuses: init, containerStatuses: regular } = statuses;
  return [...init, ...regular, ...statuses.ephemeralContainerStatuses];
}

function endsOf(status: PodStatus): readonly { readonly name: string; readonly end: Terminated }[] {
  return allStatuses(status).flatMap(({ name, state, lastState }) =>
    [lastState.terminated, state.terminated].flatMap((end) =>
      // An init container without an id has ended before play came.
      end === undefined || end.containerID === "" ? [] : [{ name, end }],
    ),
  );
}
