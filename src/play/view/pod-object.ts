/** A played pod as the object that an API server would show. Pure. */
import { qosClass } from "../pod-config/resources.js";
import type { ContainerStateNow, ContainerStatusNow, PodStatus } from "../pod-rules/status-types.js";
import type { PodEvent } from "../kubelet/events.js";
import type { Manifest } from "../manifests/read-manifests.js";

/** A `v1 List` of Pods. `runtimeName`: of the CRI server's Version, for the ids of containers. */
export function podList(pods: readonly ShownPod[], runtimeName: string): object {
  return { apiVersion: "v1", kind: "List", items: pods.map((pod) => podObject(pod, runtimeName)) };
}

function podObject({ manifest, status, deletedAt }: ShownPod, runtimeName: string): object {
  const { key, pod } = manifest;
  const { labels, annotations } = pod.metadata;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: key.name,
      namespace: key.namespace,
      uid: key.uid,
      labels,
      annotations,
      ...(status === undefined ? {} : { creationTimestamp: timeOf(status.startTime) }),
      ...(deletedAt === undefined ? {} : { deletionTimestamp: timeOf(deletedAt) }),
    },
    spec: pod.spec,
    status: {
      ...(status === undefined ? { phase: "Pending" } : statusObject(status, runtimeName)),
      qosClass: qosClass(pod.spec),
    },
  };
}

function statusObject(status: PodStatus, runtimeName: string): object {
  const containers = (statuses: readonly ContainerStatusNow[]): readonly object[] =>
    statuses.map((each) => containerObject(each, runtimeName));
  const { phase, reason, message, conditions, podIPs, startTime } = status;
  const { initContainerStatuses: init, ephemeralContainerStatuses: ephemeral } = status;
  return {
    phase,
    reason,
    message,
    conditions,
    ...(podIPs.length === 0 ? {} : { podIP: podIPs[0], podIPs: podIPs.map((ip) => ({ ip })) }),
    startTime: timeOf(startTime),
    ...(init.length === 0 ? {} : { initContainerStatuses: containers(init) }),
    containerStatuses: containers(status.containerStatuses),
    ...(ephemeral.length === 0 ? {} : { ephemeralContainerStatuses: containers(ephemeral) }),
  };
}

function containerObject(
  { containerID, state, lastState, ...rest }: ContainerStatusNow,
  runtimeName: string,
): object {
  return {
    ...rest,
    ...(containerID === "" ? {} : { containerID: `${runtimeName}://${containerID}` }),
    state: stateObject(state, runtimeName),
    lastState: stateObject(lastState, runtimeName),
  };
}

function stateObject({ waiting, running, terminated }: ContainerStateNow, runtimeName: string): object {
  if (waiting !== undefined) return { waiting };
  if (running !== undefined) return { running: { startedAt: timeOf(running.startedAt) } };
  if (terminated === undefined) return {};
  const { startedAt, finishedAt, containerID, ...rest } = terminated;
  return {
    terminated: {
      ...rest,
      startedAt: timeOf(startedAt),
      finishedAt: timeOf(finishedAt),
      ...(containerID === "" ? {} : { containerID: `${runtimeName}://${containerID}` }),
    },
  };
}

/** As Kubernetes writes times; none for a time that is not known. */
function timeOf(milliseconds: number): string | undefined {
  return milliseconds === 0 ? undefined : new Date(milliseconds).toISOString().replace(/\.\d+Z$/, "Z");
}

/** A pod that play has in charge. A `PodWorker` is one. */
export interface ShownPod {
  readonly manifest: Manifest;
  /** None before the pod was looked at. */
  readonly status: PodStatus | undefined;
  /** When its deletion began, in milliseconds since 1970. */
  readonly deletedAt?: number | undefined;
  readonly lastEvent?: PodEvent | undefined;
}
