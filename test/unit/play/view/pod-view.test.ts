import assert from "node:assert/strict";
import { test } from "node:test";
import { formatTable, podRow, podState } from "../../../../src/play/view/pod-view.js";
import { observedContainers, podWith } from "../fake-cri.js";

const spec =
  "  initContainers: [{name: i, image: x}]\n  containers: [{name: a, image: x}, {name: b, image: x}]";
const sandbox = { id: "s", attempt: 0, isReady: true, createdAt: 1n, playHash: "", uid: "u" };

const cases: readonly (readonly [string, string])[] = [
  ["", "Pending"],
  ["i=running", "Pending"],
  ["i=1", "Failed"],
  ["i=0 a=running", "Pending"],
  ["i=0 a=running b=created", "Pending"],
  ["i=0 a=running b=running", "Running"],
  ["i=0 a=running b=1", "Running"],
  ["i=0 a=0 b=unknown", "Running"],
  ["i=0 a=0 b=0", "Succeeded"],
  ["i=0 a=0 b=2", "Failed"],
];
for (const [there, expected] of cases) {
  test(`podState() with ${there === "" ? "only a sandbox" : there} is ${expected}`, async () => {
    const observed = { sandboxes: [sandbox], containers: observedContainers(there) };
    assert.equal(podState(await podWith(spec), observed), expected);
  });
}

test("podState() without a sandbox, or with an ended sandbox", async () => {
  const manifest = await podWith(spec);
  assert.equal(podState(manifest, { sandboxes: [], containers: [] }), "Absent");
  const containers = observedContainers("a=running b=running");
  assert.equal(podState(manifest, { sandboxes: [{ ...sandbox, isReady: false }], containers }), "NotReady");
});

test("podRow() shows addresses, ports and how many containers run", async () => {
  const ports =
    "[{containerPort: 80}, {containerPort: 53, protocol: UDP, hostPort: 5353}, {containerPort: 1, hostPort: 2, hostIP: '::1'}]";
  const manifest = await podWith(`  containers: [{name: a, image: x, ports: ${ports}}, {name: b, image: x}]`);
  const observed = { sandboxes: [sandbox], containers: observedContainers("a=running b=0") };
  assert.deepEqual(podRow(manifest, observed, ["10.0.0.1", "fd00::1"]), [
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
