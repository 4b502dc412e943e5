/** `dockershim pod events`: what happened to containers, as the CRI reports it. */
import { type ContainerEventResponse, ContainerEventType } from "../../domain/cri.js";
import { containerName, type FoundPod } from "./find-pod.js";
import { stateText, timeText } from "./pod-summary.js";

export interface PodEventLine {
  /** Nanoseconds since 1970. */
  readonly time: bigint;
  readonly what: string;
}

/** RFC 3339. */
export function eventTime({ time }: PodEventLine): string {
  return timeText(String(time)) ?? "";
}

/** For `sort`. Milliseconds, as they are printed, do not order all events. */
export function byTime(left: PodEventLine, right: PodEventLine): number {
  return left.time === right.time ? 0 : left.time < right.time ? -1 : 1;
}

/** The past of a pod, from the times of its sandbox and containers. What was removed is not in it. */
export function historyOf({
  sandbox,
  containers,
}: Pick<FoundPod, "sandbox" | "containers">): readonly PodEventLine[] {
  const events = [
    { time: BigInt(sandbox.created_at), what: "sandbox created" },
    ...containers.flatMap((status) => {
      const name = `container ${containerName(status)} (attempt ${status.metadata?.attempt ?? 0})`;
      return [
        { time: BigInt(status.created_at), what: `${name} created` },
        { time: BigInt(status.started_at), what: `${name} started` },
        { time: BigInt(status.finished_at), what: `${name} ${stateText(status)}` },
      ];
    }),
  ];
  // A time that has not come is 0.
  return events.filter(({ time }) => time > 0n).sort(byTime);
}

const changes: Readonly<Record<ContainerEventType, string>> = {
  [ContainerEventType.CONTAINER_CREATED_EVENT]: "created",
  [ContainerEventType.CONTAINER_STARTED_EVENT]: "started",
  [ContainerEventType.CONTAINER_STOPPED_EVENT]: "stopped",
  [ContainerEventType.CONTAINER_DELETED_EVENT]: "deleted",
};

/** An event as it happens; with the name of its pod. */
export function eventLine(event: ContainerEventResponse): PodEventLine & { readonly pod: string } {
  const { container_id: id, pod_sandbox_status: sandbox, containers_statuses: statuses } = event;
  const status = statuses.find((each) => each.id === id);
  const isSandbox = sandbox?.id === id;
  const subject = isSandbox
    ? "sandbox"
    : status === undefined
      ? `container ${id.slice(0, 13)}`
      : `container ${containerName(status)} (attempt ${status.metadata?.attempt ?? 0})`;
  const isEnd = event.container_event_type === ContainerEventType.CONTAINER_STOPPED_EVENT;
  const change = isEnd && status !== undefined ? stateText(status) : changes[event.container_event_type];
  const { namespace = "", name = "" } = sandbox?.metadata ?? {};
  return { time: BigInt(event.created_at), pod: `${namespace}/${name}`, what: `${subject} ${change}` };
}
