import assert from "node:assert/strict";
import { test } from "node:test";
import { readWorkloads } from "../../../../src/play/manifests/read-manifests.js";
import { removeSurplus } from "../../../../src/play/session/remove-pods.js";
import { Session } from "../../../../src/play/session/session.js";
import { makeFixture } from "../fake-cri.js";

const { signal } = new AbortController();
const deployment = (replicas: number) => [
  {
    name: "f.yaml",
    text: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: ${replicas},
      selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {
      terminationGracePeriodSeconds: 0, containers: [{name: c, image: "busybox:1"}]}}}}`,
  },
];

for (const fails of [false, true]) {
  test(`removeSurplus() ${fails ? "counts and reports pods that cannot be removed" : "removes pods of a workload that had more"}`, async () => {
    const { cri, deps, clock, reports } = makeFixture();
    {
      await using session = new Session(deps);
      await session.apply(await readWorkloads(deployment(2)), { keep: false }, signal);
      await clock.advance(0);
    }
    if (fails) cri.failOn = "removePodSandbox d-1";
    const { pods } = await readWorkloads(deployment(1));
    const removal = removeSurplus(deployment(1), pods, deps, signal);
    await clock.advance(1000);
    assert.deepEqual(await removal, { failed: fails ? 1 : 0 });
    assert.match(
      reports.at(-1) ?? "",
      fails ? /^default\/d-1: cannot be removed: / : /^default\/d-1: removed$/,
    );
  });
}
