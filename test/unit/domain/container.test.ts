import assert from "node:assert/strict";
import { test } from "node:test";
import { containerStateOf, exitOf } from "../../../src/domain/container-state.js";
import { toContainer } from "../../../src/domain/container.js";
import { ContainerState } from "../../../src/domain/cri.js";
import type { DockerStatus } from "../../../src/domain/snapshot.js";
import {
  containerSnapshot,
  createdAt,
  idOf,
  sandboxSnapshot,
  snapshotOf,
  type SnapshotChanges,
} from "../../fakes/snapshots.js";

const id = idOf("c1");
const sandboxId = idOf("5a");
const { CONTAINER_CREATED, CONTAINER_RUNNING, CONTAINER_EXITED, CONTAINER_UNKNOWN } = ContainerState;

test("toContainer() reads name and attempt from Docker's name, with the sandbox's help, else from labels", () => {
  const pod = { name: "my_pod", namespace: "a_b", uid: "u_1", attempt: 9 };
  const label = "io.kubernetes.container.name";
  const restartCount = "annotation.io.kubernetes.container.restartCount";
  for (const [name, sandbox, labels, expected, attempt] of [
    ["k8s_main_web_default_uid-1_0", undefined, {}, "main", 0],
    ["k8s_main_my_pod_a_b_u_1_7", pod, {}, "main", 7],
    ["k8s_my_main_my_pod_a_b_u_1_7", pod, {}, "my_main", 7],
    ["k8s_my_main_my_pod_a_b_u_1_7_0badcafe", pod, {}, "my_main", 7],
    // The container has the name of its pod.
    ["k8s_my_pod_my_pod_a_b_u_1_0", pod, {}, "my_pod", 0],
    ["k8s_my.-main_my.-pod_a.-b_u.-1_7_escaped", pod, {}, "my_main", 7],
    ["k8s_my.-main_my.-pod_a.-b_u.-1_7_escaped", undefined, {}, "my_main", 7],
    ["k8s_my_main_my_pod_a_b_u_1_7", undefined, { [label]: "my_main" }, "my_main", 7],
    ["renamed", undefined, { [label]: "app" }, "app", 0],
    ["renamed", undefined, { [label]: "app", [restartCount]: "3" }, "app", 3],
    ["renamed", undefined, { [label]: "app", [restartCount]: "many" }, "app", 0],
  ] as const) {
    const container = toContainer(containerSnapshot(id, sandboxId, { name, labels }), sandbox);
    assert.deepEqual(container?.identity, { name: expected, attempt }, name);
    assert.equal(container.sandboxId, sandboxId);
  }
});

test("toContainer() is undefined for what is no container of a pod", () => {
  const name = "k8s_main_web_default_uid-1_0";
  for (const [what, changes] of Object.entries<SnapshotChanges>({
    "a sandbox": sandboxSnapshot(id),
    "what no pod owns": { name },
    "a container without sandbox": { name, labels: { "io.kubernetes.docker.type": "container" } },
    "a container with another name": containerSnapshot(id, sandboxId, { name: "odd" }),
  })) {
    assert.equal(toContainer(snapshotOf({ id, ...changes }), undefined), undefined, what);
  }
});

test("containerStateOf() has a state for each status of Docker", () => {
  const table: readonly (readonly [DockerStatus, number, ContainerState])[] = [
    ["created", 0, CONTAINER_CREATED],
    ["created", 127, CONTAINER_EXITED],
    ["running", 0, CONTAINER_RUNNING],
    ["paused", 0, CONTAINER_RUNNING],
    ["exited", 0, CONTAINER_EXITED],
    ["dead", 0, CONTAINER_EXITED],
    ["restarting", 0, CONTAINER_UNKNOWN],
    ["removing", 0, CONTAINER_UNKNOWN],
  ];
  for (const [status, exitCode, state] of table)
    assert.equal(containerStateOf(snapshotOf({ state: { status, exitCode } })), state, status);
});

test("exitOf() has a reason and both times for what has ended", () => {
  const [started, finished] = [createdAt + 5n, createdAt + 9n];
  const ended = { status: "exited", running: false, pid: 0, started, finished } as const;
  const never = { status: "created", running: false, pid: 0, started: 0n, finished: 0n } as const;
  const table: readonly (readonly [
    what: string,
    state: SnapshotChanges["state"] & object,
    reason: string,
    startedAt: bigint,
    finishedAt: bigint,
    message?: string,
  ])[] = [
    ["running", { started }, "", started, 0n],
    ["running again after an exit", { started, finished: createdAt + 2n }, "", started, 0n],
    ["ended well", { ...ended, exitCode: 0 }, "Completed", started, finished],
    ["ended badly", { ...ended, exitCode: 3 }, "Error", started, finished],
    ["killed for memory", { ...ended, exitCode: 137, oomKilled: true }, "OOMKilled", started, finished],
    ["well, a child killed", { ...ended, exitCode: 0, oomKilled: true }, "Completed", started, finished],
    ["SIGTERM, a child killed", { ...ended, exitCode: 143, oomKilled: true }, "Error", started, finished],
    ["killed by another than the kernel", { ...ended, exitCode: 137 }, "Error", started, finished],
    ["not run", { ...never, exitCode: 127, error: "x" }, "ContainerCannotRun", createdAt, createdAt, "x"],
    ["created", never, "", 0n, 0n],
  ];
  for (const [what, state, reason, startedAt, finishedAt, message = ""] of table)
    assert.deepEqual(exitOf(snapshotOf({ state })), { reason, message, startedAt, finishedAt }, what);
});
