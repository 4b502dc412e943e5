import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { runningPods } from "../../../../src/shim/cri/stats/pod-parts.js";
import { ReadModel } from "../../../../src/shim/state/read-model.js";
import { containerSnapshot, idOf, sandboxSnapshot } from "../../../fakes/snapshots.js";

/** Whether each pod has a cgroup of its own, by the cgroup parents of all. */
function ownCgroups(parents: readonly string[]): readonly boolean[] {
  const model = new ReadModel(() => undefined);
  parents.forEach((cgroupParent, index) => {
    const name = `k8s_POD_web${index}_default_uid-${index}_0`;
    model.put(sandboxSnapshot(idOf(String(index)), { cgroupParent, name }));
  });
  return runningPods([...model.sandboxes()], model).map(({ hasOwnCgroup }) => hasOwnCgroup);
}

describe("runningPods()", () => {
  const cases: readonly (readonly [string, readonly string[], readonly boolean[]])[] = [
    ["parents of a kubelet", ["/kubepods/besteffort/pod1", "/kubepods/pod2"], [true, true]],
    ["no parent", ["", ""], [false, false]],
    ["one parent for two", ["/shared", "/shared", "/own"], [false, false, true]],
    ["a parent above another", ["/kubepods", "/kubepods/pod1"], [false, true]],
    ["slices", ["kubepods-pod1.slice", "kubepods-pod2.slice", "kubepods.slice"], [true, true, false]],
    ["names that only begin alike", ["/pod1", "/pod10"], [true, true]],
  ];
  for (const [title, parents, expected] of cases) {
    test(`tells a cgroup of the pod's own: ${title}`, () => {
      assert.deepEqual(ownCgroups(parents), expected);
    });
  }

  test("takes ready sandboxes and running containers only", () => {
    const model = new ReadModel(() => undefined);
    const [ready, stopped] = [idOf("1"), idOf("2")];
    model.put(sandboxSnapshot(ready));
    model.put(sandboxSnapshot(stopped, { state: { running: false, status: "exited" } }));
    model.put(containerSnapshot(idOf("a"), ready, { state: { status: "paused" } }));
    model.put(containerSnapshot(idOf("b"), ready, { state: { running: false, status: "exited" } }));
    const pods = runningPods([...model.sandboxes()], model);
    assert.deepEqual(
      pods.map(({ pod, containers }) => [pod.id, containers.map(({ id }) => id)]),
      [[ready, [idOf("a")]]],
    );
  });
});
