import assert from "node:assert/strict";
import { test } from "node:test";
import { formatTable, podRow, podState } from "../../../../src/play/view/pod-view.js";
import { emptyPod } from "../../../../src/play/kubelet/observed-pod.js";
import { observedPod, podWith } from "../fake-cri.js";

const spec =
  "  initContainers: [{name: i, image: x}]\n  containers: [{name: a, image: x}, {name: b, image: x}]";

const cases: readonly (readonly [string, string])[] = [
  ["", "Pending"],
  ["i=running", "Pending"],
  ["i=1", "Failed"],
  ["i=0 a=running", "Pending"],
  ["i=0 a=running b=created", "Pending"],
  ["i=0 a=running b=running", "Running"],
  ["i=0 a=running b=1", "Running"],
  ["i=0 a=0 b=unknown", "Pending"],
  ["i=0 a=0 b=0", "Succeeded"],
  ["i=0 a=0 b=2", "Failed"],
];
for (const [there, expected] of cases) {
  test(`podState() with ${there === "" ? "only a sandbox" : there} is ${expected}`, async () => {
    const manifest = await podWith(`${spec}\n  restartPolicy: Never`);
    assert.equal(podState(manifest, observedPod(manifest, there)), expected);
  });
}

test("podState() without a sandbox, or with an ended sandbox", async () => {
  const manifest = await podWith(spec);
  assert.equal(podState(manifest, emptyPod), "Absent");
  const observed = observedPod(manifest, "a=running b=running");
  const sandboxes = observed.sandboxes.map((sandbox) => ({ ...sandbox, isReady: false }));
  assert.equal(podState(manifest, { ...observed, sandboxes }), "NotReady");
});

test("podRow() shows addresses, ports and how many containers run", async () => {
  const ports =
    "[{containerPort: 80}, {containerPort: 53, protocol: UDP, hostPort: 5353}, {containerPort: 1, hostPort: 2, hostIP: '::1'}]";
  const manifest = await podWith(`  containers: [{name: a, image: x, ports: ${ports}}, {name: b, image: x}]`);
  const observed = observedPod(manifest, "a=running b=0", { ips: ["10.0.0.1", "fd00::1"] });
  assert.deepEqual(podRow(manifest, observed), [
    "default/web",
    "Running",
    "10.0.0.1,fd00::1",
    "80/TCP,5353->53/UDP,[::1]:2->1/TCP",
    "1/2",
  ]);
});

test("formatTable() aligns columns and leaves no blanks at line ends", () => {
  assert.equal(
    formatTable([
      ["A", "LONG", "C"],
      ["longer", "x", ""],
    ]),
    "A       LONG  C\nlonger  x\n",
  );
});
