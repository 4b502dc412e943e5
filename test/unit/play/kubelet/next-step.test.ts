import assert from "node:assert/strict";
import { test } from "node:test";
import type { Manifest } from "../../../../src/play/manifests/read-manifests.js";
import type { ObservedSandbox } from "../../../../src/play/kubelet/next-step.js";
import { nextStep } from "../../../../src/play/kubelet/next-step.js";
import { observedContainers as containers, podWith } from "../fake-cri.js";

const spec =
  "  initContainers: [{name: i1, image: x}, {name: i2, image: x}]\n  containers: [{name: a, image: x}, {name: b, image: x}]";
const everyImage = new Set(["i1", "i2", "a", "b"]);

function sandbox(manifest: Manifest, changes: Partial<ObservedSandbox> = {}): ObservedSandbox {
  const { hash, key } = manifest;
  return { id: "s", attempt: 0, isReady: true, createdAt: 1n, playHash: hash, uid: key.uid, ...changes };
}

/** Containers → the step and its subject. */
const cases: readonly (readonly [string, string])[] = [
  ["", "createContainer i1"],
  ["i1=created", "startContainer i1"],
  ["i1=running", "awaitInitContainer i1"],
  ["i1=unknown", "awaitInitContainer i1"],
  ["i1=0", "createContainer i2"],
  ["i1=3", "fail i1"],
  ["i1=0 i2=1", "fail i2"],
  ["i1=0 i2=0", "createContainer a"],
  ["i1=0 i2=0 a=created", "startContainer a"],
  ["i1=0 i2=0 a=running", "createContainer b"],
  ["i1=0 i2=0 a=1", "createContainer b"],
  ["i1=0 i2=0 a=running b=created", "startContainer b"],
  ["i1=0 i2=0 a=running b=running", "nothing"],
  ["a=running b=0", "nothing"],
  ["a=running", "createContainer b"],
];

for (const [there, expected] of cases) {
  test(`nextStep() with ${there === "" ? "only a sandbox" : there} is ${expected}`, async () => {
    const manifest = await podWith(spec);
    const observed = { sandboxes: [sandbox(manifest)], containers: containers(there) };
    const step = nextStep(manifest, observed, everyImage);
    const subject = "container" in step ? ` ${step.container.name}` : "";
    assert.equal(step.do + subject, expected);
  });
}

test("nextStep() ensures the images of all containers before anything is made", async () => {
  const manifest = await podWith(spec);
  const ready = new Set<string>();
  for (const name of ["i1", "i2", "a", "b"]) {
    const step = nextStep(manifest, { sandboxes: [], containers: [] }, ready);
    assert.deepEqual(step.do === "ensureImage" && step.container.name, name);
    ready.add(name);
  }
  assert.deepEqual(nextStep(manifest, { sandboxes: [], containers: [] }, ready), { do: "runSandbox" });
});

test("nextStep() asks for no image of a pod that is complete", async () => {
  const manifest = await podWith(spec);
  const observed = { sandboxes: [sandbox(manifest)], containers: containers("a=running b=running") };
  assert.deepEqual(nextStep(manifest, observed, new Set()), { do: "nothing" });
});

test("nextStep() removes a sandbox that has ended, and ignores its containers", async () => {
  const manifest = await podWith(spec);
  const dead = sandbox(manifest, { isReady: false });
  const observed = { sandboxes: [dead], containers: containers("i1=0 i2=0 a=0 b=0") };
  assert.deepEqual(nextStep(manifest, observed, everyImage), { do: "removeSandbox", sandbox: dead });
});

test("nextStep() keeps the newest of several ready sandboxes", async () => {
  const manifest = await podWith(spec);
  const old = sandbox(manifest, { id: "old", createdAt: 1n });
  const observed = { sandboxes: [old, sandbox(manifest, { id: "new", createdAt: 2n })], containers: [] };
  assert.deepEqual(nextStep(manifest, observed, everyImage), { do: "removeSandbox", sandbox: old });
});

const conflicts: readonly (readonly [string, Partial<ObservedSandbox>, RegExp])[] = [
  ["a changed manifest", { playHash: "other" }, /has changed.*--down/],
  ["another uid", { uid: "other" }, /another uid.*--down/],
  ["a sandbox of another program", { playHash: undefined }, /not made by play/],
];
for (const [what, changes, expected] of conflicts) {
  test(`nextStep() fails for ${what}, before it touches an image`, async () => {
    const manifest = await podWith(spec);
    const step = nextStep(manifest, { sandboxes: [sandbox(manifest, changes)], containers: [] }, new Set());
    assert.equal(step.do, "fail");
    assert.match(step.reason, expected);
  });
}
