import assert from "node:assert/strict";
import { test } from "node:test";
import { type PodSummary, renderPods, summarize } from "../../../../src/play/pod-commands/pod-summary.js";
import { findPods } from "../../../../src/play/pod-commands/find-pod.js";
import { keptPod } from "../../../../src/play/pod-commands/kept-pod.js";
import { type Fixture, makeFixture, podWith } from "../fake-cri.js";

const { signal } = new AbortController();
const report = (line: string): void => assert.fail(line);

/** What `pod ps` says of a pod while a kubelet keeps it. */
async function listed(
  spec: string,
  prepare: (fixture: Fixture) => void = () => undefined,
  afterMs = 0,
): Promise<PodSummary> {
  const fixture = makeFixture();
  prepare(fixture);
  const { kubelet, clock, cri, deps } = fixture;
  kubelet.apply(await podWith(spec), { failFast: false });
  await clock.advance(afterMs);
  try {
    const [pod] = await findPods(cri, { pods: [], namespace: undefined, labels: [] }, signal);
    assert.ok(pod);
    const kept = await keptPod(pod.sandbox, { ...deps, report });
    return summarize(pod, await cri.podSandboxStatus(pod.sandbox.id), kept, clock.now());
  } finally {
    await kubelet[Symbol.asyncDispose]();
  }
}

const main = "containers: [{name: a, image: busybox:1}]";
const state = ({ phase, status, readyContainers: ready, wantedContainers: all }: PodSummary): string =>
  `${phase} ${status} ${ready}/${all}`;

for (const [what, policy, code, expected] of [
  ["fails and will be restarted", "Always", 3, "Running Error 0/1"],
  ["has done its work and will be restarted", "Always", 0, "Running Completed 0/1"],
  ["fails and will be restarted", "OnFailure", 3, "Running Error 0/1"],
  ["has succeeded", "OnFailure", 0, "Succeeded Completed 0/1"],
  ["has failed", "Never", 3, "Failed Error 0/1"],
] as const)
  test(`with restartPolicy ${policy}, a pod whose container ${what} is ${expected}`, async () => {
    const pod = await listed(`  restartPolicy: ${policy}\n  ${main}`, ({ cri }) => cri.exits.set("a", code));
    assert.equal(state(pod), expected);
  });

test("a pod that has succeeded has not failed when its activeDeadlineSeconds have passed", async () => {
  const spec = `  restartPolicy: Never\n  activeDeadlineSeconds: 5\n  ${main}`;
  const pod = await listed(spec, ({ cri }) => cri.exits.set("a", 0), 600_000);
  assert.equal(state(pod), "Succeeded Completed 0/1");
  assert.equal(pod.reason, undefined);
});

test("a pod whose init container runs, or fails, is pending", async () => {
  const spec = `  initContainers: [{name: i, image: busybox:1}]\n  ${main}`;
  assert.equal(state(await listed(spec)), "Pending Init:0/1 0/1");
  const failing = await listed(spec, ({ cri }) => cri.exits.set("i", 1));
  assert.equal(state(failing), "Pending Init:Error 0/1");
});

test("a pod that runs is shown without its init containers, and with its sidecars", async () => {
  const spec = `  initContainers: [{name: i, image: busybox:1}, {name: s, image: busybox:1, restartPolicy: Always}]\n  ${main}`;
  const pod = await listed(spec, ({ cri }) => cri.exits.set("i", 0));
  assert.equal(state(pod), "Running Running 2/2");
  assert.match(await renderPods([pod], { output: "table", now: 0 }), /READY +STATUS .*\n.* 2\/2 +Running /);
});
