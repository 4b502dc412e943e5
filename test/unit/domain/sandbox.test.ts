import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { NamespaceMode, PodSandboxState } from "../../../src/domain/cri.js";
import { type SandboxRecord, toSandbox } from "../../../src/domain/sandbox.js";
import { containerSnapshot, idOf, sandboxSnapshot, snapshotOf } from "../../fakes/snapshots.js";

const id = idOf("5a");
const record: SandboxRecord = {
  ...{ namespace: "ns_of_record", name: "pod_of_record", uid: "uid_of_record", attempt: 3 },
  phase: "ready",
  runtimeHandler: "kata",
  namespaces: { network: 0, pid: NamespaceMode.POD, ipc: 0 },
};

describe("toSandbox()", () => {
  test("takes the pod from the record, else from the name, else from the kubelet's labels", () => {
    const name = "k8s_POD_my_pod_default_uid_1_4";
    const labels = {
      "io.kubernetes.pod.name": "my_pod",
      "io.kubernetes.pod.namespace": "default",
      "io.kubernetes.pod.uid": "uid_1",
    };
    for (const [changes, recorded, pod] of [
      [{}, undefined, ["web", "default", "uid-1", 0]],
      [{}, record, ["pod_of_record", "ns_of_record", "uid_of_record", 3]],
      [{ name, labels }, undefined, ["my_pod", "default", "uid_1", 4]],
      [{ name: "k8s_POD_my.-pod_x..y_uid.-1_4_escaped" }, undefined, ["my_pod", "x.y", "uid_1", 4]],
    ] as const) {
      const sandbox = toSandbox(sandboxSnapshot(id, changes), recorded);
      assert.ok(sandbox);
      const { name, namespace, uid, attempt } = sandbox.pod;
      assert.deepEqual([name, namespace, uid, attempt], pod);
      assert.equal(sandbox.item.runtime_handler, recorded?.runtimeHandler ?? "");
    }
  });

  test("is undefined for containers, for what no pod owns, and when nothing names the pod", () => {
    for (const snapshot of [
      sandboxSnapshot(id, { name: "odd" }),
      containerSnapshot(idOf("c1"), id),
      snapshotOf({ name: "k8s_POD_web_default_uid-1_0" }),
    ])
      assert.equal(toSandbox(snapshot, undefined), undefined);
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
      const state = { status: "exited", running: false, pid: 0 } as const;
      const snapshot = sandboxSnapshot(id, running ? {} : { state });
      const sandbox = toSandbox(snapshot, phase === undefined ? undefined : { ...record, phase });
      assert.equal(sandbox?.ready, ready);
      const { SANDBOX_READY, SANDBOX_NOTREADY } = PodSandboxState;
      assert.equal(sandbox.item.state, ready ? SANDBOX_READY : SANDBOX_NOTREADY);
    });
  }

  test("has the namespaces of a pod from record and snapshot", () => {
    const { POD, CONTAINER, NODE } = NamespaceMode;
    const host = { networkMode: "host", pidMode: "host", ipcMode: "host" };
    for (const [changes, recorded, network, pid, ipc] of [
      [{}, record, POD, POD, POD],
      [{}, undefined, POD, CONTAINER, POD],
      [host, record, NODE, NODE, NODE],
    ] as const) {
      const sandbox = toSandbox(sandboxSnapshot(id, changes), recorded);
      assert.deepEqual(sandbox?.namespaces, { network, pid, ipc });
      assert.equal(sandbox.hostNetwork, network === NODE);
    }
  });
});
