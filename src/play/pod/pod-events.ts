/** `dockershim pod events`: what happened to containers, as the CRI tells. */
import { type ContainerEventResponse, ContainerEventType } from "../../shim/domain/cri.js";
import { containerName, type FoundPod } from "./find-pod.js";
import { stateText, timeText } from "./pod-summary.js";

export interface PodEventLine {
  /** RFC 3339. */
  readonly at: string;
  readonly what: string;
}

/** The past of a pod, from the times of its sandbox and containers. What was removed is not in it. */
export function historyOf({
  sandbox,
  containers,
}: Pick<FoundPod, "sandbox" | "containers">): readonly PodEventLine[] {
  const events = [
    { at: timeText(sandbox.created_at), what: "sandbox created" },
    ...containers.flatMap((status) => {
      const name = `container ${containerName(status)} (attempt ${status.metadata?.attempt ?? 0})`;
      return [
        { at: timeText(status.created_at), what: `${name} created` },
        { at: timeText(status.started_at), what: `${name} started` },
        { at: timeText(status.finished_at), what: `${name} ${stateText(status)}` },
      ];
    }),
  ];
  return events
    .flatMap(({ at, what }) => (at === undefined ? [] : [{ at, what }]))
    .sort((left, right) => (left.at < right.at ? -1 : left.at > right.at ? 1 : 0));
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
  return { at: timeText(event.created_at) ?? "", pod: `${namespace}/${name}`, what: `${subject} ${change}` };
}
