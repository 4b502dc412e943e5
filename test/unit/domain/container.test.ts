import assert from "node:assert/strict";
import { describe, test } from "node:test";
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

describe("toContainer()", () => {
  test("reads a plain name without its sandbox", () => {
    const container = toContainer(containerSnapshot(id, sandboxId), undefined);
    assert.deepEqual(container?.identity, { name: "main", attempt: 0 });
    assert.equal(container.sandboxId, sandboxId);
  });

  const pod = { name: "my_pod", namespace: "a_b", uid: "u_1", attempt: 9 };
  const underscored: readonly (readonly [string, string, number])[] = [
    ["k8s_main_my_pod_a_b_u_1_7", "main", 7],
    ["k8s_my_main_my_pod_a_b_u_1_7", "my_main", 7],
    ["k8s_my_main_my_pod_a_b_u_1_7_0badcafe", "my_main", 7],
    // The container has the name of its pod.
    ["k8s_my_pod_my_pod_a_b_u_1_0", "my_pod", 0],
  ];
  for (const [name, container, attempt] of underscored) {
    test(`reads ${name} with the help of its sandbox`, () => {
      assert.deepEqual(toContainer(containerSnapshot(id, sandboxId, { name }), pod)?.identity, {
        name: container,
        attempt,
      });
    });
  }

  test("reads an escaped name with and without its sandbox", () => {
    const snapshot = containerSnapshot(id, sandboxId, { name: "k8s_my.-main_my.-pod_a.-b_u.-1_7_escaped" });
    for (const known of [pod, undefined]) {
      assert.deepEqual(toContainer(snapshot, known)?.identity, { name: "my_main", attempt: 7 });
    }
  });

  test("falls back to the kubelet's label when sandbox and name do not say", () => {
    const labels = { "io.kubernetes.container.name": "my_main" };
    const snapshot = containerSnapshot(id, sandboxId, { name: "k8s_my_main_my_pod_a_b_u_1_7", labels });
    assert.deepEqual(toContainer(snapshot, undefined)?.identity, { name: "my_main", attempt: 7 });
  });

  const renamed: readonly (readonly [restartCount: string | undefined, attempt: number])[] = [
    [undefined, 0],
    ["3", 3],
    ["many", 0],
  ];
  for (const [restartCount, attempt] of renamed) {
    test(`reads a renamed one by its labels, with restart count ${restartCount}`, () => {
      const count =
        restartCount === undefined ? {} : { "annotation.io.kubernetes.container.restartCount": restartCount };
      const labels = { "io.kubernetes.container.name": "app", ...count };
      const snapshot = containerSnapshot(id, sandboxId, { name: "debug-me", labels });
      assert.deepEqual(toContainer(snapshot, undefined)?.identity, { name: "app", attempt });
    });
  }

  const foreign: readonly (readonly [string, SnapshotChanges])[] = [
    ["a sandbox", sandboxSnapshot(id)],
    ["what no pod owns", { name: "k8s_main_web_default_uid-1_0" }],
    [
      "a container without sandbox",
      { name: "k8s_main_web_default_uid-1_0", labels: { "io.kubernetes.docker.type": "container" } },
    ],
    ["a container with a strange name", containerSnapshot(id, sandboxId, { name: "odd" })],
  ];
  for (const [name, changes] of foreign) {
    test(`is undefined for ${name}`, () => {
      assert.equal(toContainer(snapshotOf({ id, ...changes }), undefined), undefined);
    });
  }

  test("the list item names sandbox, image and time, and hides the shim's own labels", () => {
    const labels = { app: "web", "annotation.hash": "1", "io.kubernetes.container.logpath": "/var/log/x" };
    const container = toContainer(
      containerSnapshot(id, sandboxId, { labels, imageName: "busybox:1" }),
      undefined,
    );
    assert.equal(container?.logPath, "/var/log/x");
    assert.deepEqual(container.item, {
      id,
      pod_sandbox_id: sandboxId,
      metadata: { name: "main", attempt: 0 },
      image: {
        image: "busybox:1",
        annotations: {},
        user_specified_image: "",
        runtime_handler: "",
        image_ref: "",
      },
      image_ref: `sha256:${idOf("1a")}`,
      image_id: `sha256:${idOf("1a")}`,
      state: CONTAINER_RUNNING,
      created_at: String(createdAt),
      labels: { app: "web" },
      annotations: { hash: "1" },
    });
  });
});

describe("containerStateOf()", () => {
  const table: readonly (readonly [DockerStatus, number, ContainerState])[] = [
    ["created", 0, CONTAINER_CREATED],
    ["created", 127, CONTAINER_EXITED],
    ["running", 0, CONTAINER_RUNNING],
    ["paused", 0, CONTAINER_RUNNING],
    ["exited", 0, CONTAINER_EXITED],
    ["exited", 1, CONTAINER_EXITED],
    ["dead", 0, CONTAINER_EXITED],
    ["restarting", 0, CONTAINER_UNKNOWN],
    ["removing", 0, CONTAINER_UNKNOWN],
  ];
  for (const [status, exitCode, state] of table) {
    test(`${status} with exit code ${exitCode} is ${state}`, () => {
      assert.equal(containerStateOf(snapshotOf({ state: { status, exitCode } })), state);
    });
  }
});

describe("exitOf()", () => {
  const [started, finished] = [createdAt + 5n, createdAt + 9n];
  const ended = { status: "exited", running: false, pid: 0, started, finished } as const;
  const never = { status: "created", running: false, pid: 0, started: 0n, finished: 0n } as const;
  const table: readonly (readonly [string, SnapshotChanges["state"] & object, ReturnType<typeof exitOf>])[] =
    [
      ["running", { started }, { reason: "", message: "", startedAt: started, finishedAt: 0n }],
      [
        "running again after an exit",
        { started, finished: createdAt + 2n },
        { reason: "", message: "", startedAt: started, finishedAt: 0n },
      ],
      [
        "ended well",
        { ...ended, exitCode: 0 },
        { reason: "Completed", message: "", startedAt: started, finishedAt: finished },
      ],
      [
        "ended badly",
        { ...ended, exitCode: 3 },
        { reason: "Error", message: "", startedAt: started, finishedAt: finished },
      ],
      [
        "killed for memory",
        { ...ended, exitCode: 137, oomKilled: true },
        { reason: "OOMKilled", message: "", startedAt: started, finishedAt: finished },
      ],
      [
        "ended well after a child was killed for memory",
        { ...ended, exitCode: 0, oomKilled: true },
        { reason: "Completed", message: "", startedAt: started, finishedAt: finished },
      ],
      [
        "ended by SIGTERM after a child was killed for memory",
        { ...ended, exitCode: 143, oomKilled: true },
        { reason: "Error", message: "", startedAt: started, finishedAt: finished },
      ],
      [
        "killed by another than the kernel",
        { ...ended, exitCode: 137 },
        { reason: "Error", message: "", startedAt: started, finishedAt: finished },
      ],
      [
        "refused by the OCI runtime",
        { ...never, exitCode: 127, error: "no such file" },
        {
          reason: "ContainerCannotRun",
          message: "no such file",
          startedAt: createdAt,
          finishedAt: createdAt,
        },
      ],
      ["created", never, { reason: "", message: "", startedAt: 0n, finishedAt: 0n }],
    ];
  for (const [name, state, expected] of table) {
    test(`of a container that is ${name}`, () => {
      assert.deepEqual(exitOf(snapshotOf({ state })), expected);
    });
  }
});
