/** A sandbox or container of a pod as containerd would describe it to cAdvisor, in proto/cadvisor.proto. Pure. */
import type { ContainerEntry } from "../../domain/container.js";
import { containerStateOf } from "../../domain/container-state.js";
import { ContainerState } from "../../domain/cri.js";
import { sandboxType, typeLabel } from "../../domain/labels.js";
import type { SandboxEntry } from "../../domain/sandbox.js";
import type { Snapshot } from "../../domain/snapshot.js";

export interface ContainerRequest {
  readonly id: string;
}

export interface ContainerResponse {
  readonly container: {
    readonly id: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly image: string;
    readonly spec: { readonly type_url: string; readonly value: Buffer };
  };
}

export interface TaskRequest {
  readonly container_id: string;
  readonly exec_id: string;
}

type TaskStatus = (typeof taskStatus)[keyof typeof taskStatus];

/** CREATED has no counterpart: a container that Docker has only created is no task yet. */
const taskStatus = { unknown: 0, running: 2, stopped: 3, paused: 4 } as const;

export interface TaskResponse {
  readonly process: {
    readonly container_id: string;
    readonly id: string;
    readonly pid: number;
    readonly status: TaskStatus;
    readonly exit_status: number;
  };
}

/** By it cAdvisor knows which container has the network of the pod. */
const kindLabel = "io.cri-containerd.kind";

/** cAdvisor takes `process` for granted and reads its environment: empty, for it may hold secrets. */
const emptySpec = {
  type_url: "types.containerd.io/opencontainers/runtime-spec/1/Spec",
  value: Buffer.from('{"ociVersion":"1.0.2","process":{"args":[],"cwd":"/","env":[]}}'),
};

/** `image`: its name with the registry. */
export function describeContainer(
  { id, labels, snapshot }: SandboxEntry | ContainerEntry,
  image: string,
): ContainerResponse {
  const kind = snapshot.labels[typeLabel] === sandboxType ? "sandbox" : "container";
  return { container: { id, labels: { ...labels, [kindLabel]: kind }, image, spec: emptySpec } };
}

/** Undefined while the container has not been started: cAdvisor asks again then. */
export function describeTask({ id, state }: Snapshot): TaskResponse | undefined {
  const status = statusOf(state);
  if (status === undefined) return undefined;
  const exit_status = status === taskStatus.stopped ? state.exitCode : 0;
  return { process: { container_id: id, id, pid: state.pid, status, exit_status } };
}

function statusOf(state: Snapshot["state"]): TaskStatus | undefined {
  if (state.status === "paused") return taskStatus.paused;
  switch (containerStateOf({ state })) {
    case ContainerState.CONTAINER_CREATED:
      return undefined;
    case ContainerState.CONTAINER_RUNNING:
      // Without a process there is nothing to measure yet.
      return state.pid === 0 ? undefined : taskStatus.running;
    case ContainerState.CONTAINER_EXITED:
      return taskStatus.stopped;
    case ContainerState.CONTAINER_UNKNOWN:
      return taskStatus.unknown;
  }
}
