import assert from "node:assert/strict";
import { test } from "node:test";
import type { ObservedPod } from "../../../../src/play/pod-rules/observed-pod.js";
import { podActions } from "../../../../src/play/pod-rules/pod-actions.js";
import type { ProbeKind, ProbeResult } from "../../../../src/play/pod-rules/probe-results.js";
import type { Manifest } from "../../../../src/play/manifests/read-manifests.js";
import { observedPod, podWith } from "../fake-cri.js";

const two = "  containers: [{name: a, image: x}, {name: b, image: x}]";
const init = `  initContainers: [{name: i1, image: x}, {name: i2, image: x}]\n${two}`;
const sidecar = `  initContainers: [{name: s, image: x, restartPolicy: Always}, {name: i, image: x}]\n${two}`;
const probe = "{exec: {command: ['true']}}";
const gated = `  initContainers: [{name: s, image: x, restartPolicy: Always, startupProbe: ${probe}}]\n${two}`;
const never = "  restartPolicy: Never\n";
const onFailure = "  restartPolicy: OnFailure\n";

/** As `kill s; new sandbox 1; start i1 a`, empty for nothing. */
function actionsOf(
  manifest: Manifest,
  observed: ObservedPod,
  results: Readonly<Record<string, ProbeResult>> = {},
): string {
  const get = (kind: ProbeKind, id: string): ProbeResult | undefined =>
    results[`${kind} ${id.replace("id-", "")}`];
  const { killPod, createSandbox, attempt, kill, start } = podActions(manifest, observed, { get });
  const starts = start.map(({ container }) => container.name).join(" ");
  return [
    killPod && observed.sandboxes.length > 0 ? "kill pod" : "",
    kill.length === 0 ? "" : `kill ${kill.map(({ container }) => container.name).join(" ")}`,
    createSandbox ? `new sandbox ${attempt}` : "",
    starts === "" ? "" : `start ${starts}`,
  ]
    .filter((part) => part !== "")
    .join("; ");
}

/** Spec, containers, expected actions. */
const cases: readonly (readonly [string, string, string])[] = [
  [two, "", "start a b"],
  [two, "a=running b=running", ""],
  [two, "a=0 b=running", "start a"],
  [two, "a=created b=running", "start a"],
  [two, "a=unknown b=running", "kill a; start a"],
  [never + two, "a=1 b=running", ""],
  [never + two, "a=1 b=0", "kill pod"],
  [onFailure + two, "a=1 b=0", "start a"],
  [onFailure + two, "a=0 b=0", "kill pod"],
  [two, "a=0 b=0", "start a b"],
  [init, "", "start i1"],
  [init, "i1=running", ""],
  [init, "i1=created", "start i1"],
  [init, "i1=0", "start i2"],
  [init, "i2=0", "start a b"],
  [init, "i1=3", "start i1"],
  [init, "i1=unknown", "kill i1; start i1"],
  [never + init, "i1=3", "kill pod"],
  [never + init, "i1=unknown", "kill pod"],
  [init, "i1=0 i2=0", "start a b"],
  [init, "a=running", "start b"],
  [init, "a=1 b=running", "start a"],
  [sidecar, "", "start s"],
  [sidecar, "s=running", "start i"],
  [sidecar, "s=running i=running", ""],
  [sidecar, "s=1 i=running", "start s"],
  [sidecar, "s=running i=0", "start a b"],
  [sidecar, "s=0 i=0 a=running b=running", "start s"],
  [sidecar, "a=running b=running", "start s"],
  [never + sidecar, "s=1 i=0 a=running b=running", "start s"],
  [never + sidecar, "s=running i=0 a=0 b=0", "kill pod"],
  [never + sidecar, "s=1 i=0 a=0 b=0", "kill pod"],
  [sidecar, "s=unknown i=0 a=running b=running", "kill s; start s"],
  [gated, "s=running", ""],
];
for (const [spec, there, expected] of cases) {
  const name = `${spec.trim().split("\n").slice(0, 2).join(" ").slice(0, 60)}… with ${there || "no container"}`;
  test(`podActions() of ${name}: ${expected || "nothing"}`, async () => {
    const manifest = await podWith(spec);
    assert.equal(actionsOf(manifest, observedPod(manifest, there)), expected);
  });
}

/** Spec, containers, probe results, expected actions. */
const probed: readonly (readonly [string, string, Readonly<Record<string, ProbeResult>>, string])[] = [
  [two, "a=running b=running", { "liveness a": "failure" }, "kill a; start a"],
  [two, "a=running b=running", { "startup b": "failure" }, "kill b; start b"],
  [two, "a=running b=running", { "readiness a": "failure" }, ""],
  [never + two, "a=running b=running", { "liveness a": "failure" }, "kill a"],
  [gated, "s=running", { "startup s": "unknown" }, ""],
  [gated, "s=running", { "startup s": "failure" }, "kill s; start s"],
  [gated, "s=running", { "startup s": "success" }, "start a b"],
];
for (const [spec, there, results, expected] of probed) {
  test(`podActions() with ${JSON.stringify(results)} and ${there}: ${expected || "nothing"}`, async () => {
    const manifest = await podWith(spec);
    assert.equal(actionsOf(manifest, observedPod(manifest, there), results), expected);
  });
}

test("podActions() restarts a sidecar whose liveness probe has failed", async () => {
  const manifest = await podWith(
    `  initContainers: [{name: s, image: x, restartPolicy: Always, livenessProbe: ${probe}}]\n${two}`,
  );
  const observed = observedPod(manifest, "s=running a=running b=running");
  assert.equal(actionsOf(manifest, observed, { "liveness s": "failure" }), "kill s; start s");
});

test("podActions() restarts containers that have changed, whatever the restartPolicy is", async () => {
  const observed = observedPod(await podWith(never + two), "a=running b=running");
  const changed = await podWith(`${never}  containers: [{name: a, image: x}, {name: b, image: y}]`);
  assert.equal(actionsOf(changed, observed), "kill b; start b");
});

test("podActions() restarts a sidecar that has changed", async () => {
  const observed = observedPod(await podWith(sidecar), "s=running i=0 a=running b=running");
  const changed = await podWith(sidecar.replace("{name: s, image: x", "{name: s, image: y"));
  assert.equal(actionsOf(changed, observed), "kill s; start s");
});

test("podActions() starts ephemeral containers once, also while init containers run", async () => {
  const manifest = await podWith(`  ephemeralContainers: [{name: e, image: x}]\n${init}`);
  assert.equal(actionsOf(manifest, observedPod(manifest, "i1=running")), "start e");
  assert.equal(actionsOf(manifest, observedPod(manifest, "e=1 i1=running")), "");
});

/** Spec, containers, sandboxes (ready or not, newest first), expected actions. */
const sandboxes: readonly (readonly [string, string, readonly boolean[], string])[] = [
  [two, "", [], "new sandbox 0; start a b"],
  [init, "", [], "new sandbox 0; start i1"],
  [two, "a=0 b=0", [false], "kill pod; new sandbox 1; start a b"],
  [init, "i1=0 i2=0 a=0 b=0", [false], "kill pod; new sandbox 1; start i1"],
  [two, "a=running b=running", [true, true], "kill pod; new sandbox 1; start a b"],
  [two, "a=running b=running", [false, true], "kill pod; new sandbox 1; start a b"],
  [two, "a=running b=running", [true, false], ""],
  [never + two, "a=0 b=1", [false], "kill pod"],
  [never + two, "", [false], "kill pod; new sandbox 1; start a b"],
  [onFailure + two, "a=0 b=1", [false], "kill pod; new sandbox 1; start b"],
  [onFailure + two, "a=0 b=0", [false], "kill pod"],
];
for (const [spec, there, ready, expected] of sandboxes) {
  test(`podActions() with ready sandboxes ${JSON.stringify(ready)} and ${there}: ${expected}`, async () => {
    const manifest = await podWith(spec);
    const observed = observedPod(manifest, there);
    const [sandbox] = observed.sandboxes;
    assert.ok(sandbox);
    const list = ready.map((isReady, index) => ({ ...sandbox, id: `s${index}`, isReady }));
    assert.equal(actionsOf(manifest, { ...observed, sandboxes: list }), expected);
  });
}

test("podActions() makes a new sandbox when it has no address, but not on the host network", async () => {
  const manifest = await podWith(two);
  const observed = { ...observedPod(manifest, "a=running b=running"), lacksIp: true };
  assert.equal(actionsOf(manifest, observed), "kill pod; new sandbox 1; start a b");
  const host = await podWith(`  hostNetwork: true\n${two}`);
  assert.equal(actionsOf(host, { ...observedPod(host, "a=running b=running"), lacksIp: true }), "");
});
