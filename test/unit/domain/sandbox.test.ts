import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { NamespaceMode, PodSandboxState } from "../../../src/domain/cri.js";
import type { SandboxRecord } from "../../../src/domain/sandbox.js";
import { toSandbox } from "../../../src/domain/sandbox.js";
import { containerSnapshot, createdAt, idOf, sandboxSnapshot, snapshotOf } from "../../fakes/snapshots.js";

const id = idOf("5a");
const record: SandboxRecord = {
  namespace: "ns_of_record",
  name: "pod_of_record",
  uid: "uid_of_record",
  attempt: 3,
  phase: "ready",
  runtimeHandler: "kata",
  namespaces: { network: 0, pid: NamespaceMode.POD, ipc: 0 },
};
const stopped = { status: "exited", running: false, pid: 0 } as const;

describe("toSandbox()", () => {
  test("reads the pod from the name when there is no record", () => {
    const sandbox = toSandbox(sandboxSnapshot(id), undefined);
    assert.deepEqual(sandbox?.pod, { name: "web", namespace: "default", uid: "uid-1", attempt: 0 });
    assert.equal(sandbox.runtimeHandler, "");
  });

  test("believes the record rather than the name", () => {
    const sandbox = toSandbox(sandboxSnapshot(id), record);
    const pod = { name: "pod_of_record", namespace: "ns_of_record", uid: "uid_of_record", attempt: 3 };
    assert.deepEqual(sandbox?.pod, pod);
    assert.equal(sandbox.item.runtime_handler, "kata");
  });

  test("reads the kubelet's labels when the name has underscores inside", () => {
    const snapshot = sandboxSnapshot(id, {
      name: "k8s_POD_my_pod_default_uid_1_4",
      labels: {
        "io.kubernetes.pod.name": "my_pod",
        "io.kubernetes.pod.namespace": "default",
        "io.kubernetes.pod.uid": "uid_1",
      },
    });
    assert.deepEqual(toSandbox(snapshot, undefined)?.pod, {
      name: "my_pod",
      namespace: "default",
      uid: "uid_1",
      attempt: 4,
    });
  });

  test("reads an escaped name without any label", () => {
    const snapshot = sandboxSnapshot(id, { name: "k8s_POD_my.-pod_x..y_uid.-1_4_escaped" });
    assert.deepEqual(toSandbox(snapshot, undefined)?.pod, {
      name: "my_pod",
      namespace: "x.y",
      uid: "uid_1",
      attempt: 4,
    });
  });

  test("is undefined when nothing says whose pod it is", () => {
    assert.equal(toSandbox(sandboxSnapshot(id, { name: "odd" }), undefined), undefined);
  });

  test("is undefined for containers and for what no pod owns", () => {
    assert.equal(toSandbox(containerSnapshot(idOf("c1"), id), undefined), undefined);
    assert.equal(toSandbox(snapshotOf({ name: "k8s_POD_web_default_uid-1_0" }), undefined), undefined);
  });

  const readiness: readonly (readonly [string, SandboxRecord["phase"] | undefined, boolean, boolean])[] = [
    ["ready and runs", "ready", true, true],
    ["ready and has stopped", "ready", false, false],
    ["being created and runs", "creating", true, false],
    ["to be stopped and still runs", "stopped", true, false],
    ["without a record and runs", undefined, true, true],
    ["without a record and has stopped", undefined, false, false],
  ];
  for (const [name, phase, running, ready] of readiness) {
    test(`a sandbox that is ${name} is ${ready ? "READY" : "NOTREADY"}`, () => {
      const snapshot = sandboxSnapshot(id, running ? {} : { state: stopped });
      const sandbox = toSandbox(snapshot, phase === undefined ? undefined : { ...record, phase });
      assert.equal(sandbox?.ready, ready);
      const { SANDBOX_READY, SANDBOX_NOTREADY } = PodSandboxState;
      assert.equal(sandbox.item.state, ready ? SANDBOX_READY : SANDBOX_NOTREADY);
    });
  }

  test("tells the namespaces of a pod from record and snapshot", () => {
    const { POD, CONTAINER, NODE } = NamespaceMode;
    assert.deepEqual(toSandbox(sandboxSnapshot(id), record)?.namespaces, {
      network: POD,
      pid: POD,
      ipc: POD,
    });
    assert.deepEqual(toSandbox(sandboxSnapshot(id), undefined)?.namespaces, {
      network: POD,
      pid: CONTAINER,
      ipc: POD,
    });
    const host = sandboxSnapshot(id, { networkMode: "host", pidMode: "host", ipcMode: "host" });
    assert.deepEqual(toSandbox(host, record)?.namespaces, { network: NODE, pid: NODE, ipc: NODE });
    assert.equal(toSandbox(host, record)?.hostNetwork, true);
  });

  test("the list item holds labels and annotations as requested, and the time as text", () => {
    const snapshot = sandboxSnapshot(id, { labels: { app: "web", "annotation.note": "x" } });
    assert.deepEqual(toSandbox(snapshot, undefined)?.item, {
      id,
      metadata: { name: "web", namespace: "default", uid: "uid-1", attempt: 0 },
      state: PodSandboxState.SANDBOX_READY,
      created_at: String(createdAt),
      labels: { app: "web" },
      annotations: { note: "x" },
      runtime_handler: "",
    });
  });
});
