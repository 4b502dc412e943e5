import assert from "node:assert/strict";
import { test } from "node:test";
import { readRemoval, readWorkloads } from "../../../../src/play/manifests/read-manifests.js";
import { podsToRemove, removePods, removeSurplus } from "../../../../src/play/session/remove-pods.js";
import { Session } from "../../../../src/play/session/session.js";
import { namesOf } from "../../../../src/play/store/play-store.js";
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

test("of pods whose containers are gone, the files are found and removed", async () => {
  const { cri, files, deps, clock, reports } = makeFixture();
  const pod =
    "{apiVersion: v1, kind: Pod, metadata: {name: p, uid: u-1}, spec: {containers: [{name: c, image: 'busybox:1'}]}}";
  const texts = [...deployment(2), { name: "p.yaml", text: pod }];
  {
    await using session = new Session(deps);
    await session.apply(await readWorkloads(texts), { keep: false }, signal);
    await clock.advance(0);
  }
  cri.sandboxes.length = 0;
  cri.containers.length = 0;
  files.paths.add("/state/plays.d/x");
  files.paths.add("/state/damaged/pod.json");
  files.texts.set("/state/damaged/pod.json", "{");
  // The uid of the manifest has changed since.
  const now = [...deployment(0), { name: "p.yaml", text: pod.replace("u-1", "u-2") }];
  const { pods, missing } = await podsToRemove(await readRemoval(now), deps, signal);
  assert.deepEqual(missing, []);
  assert.match(reports.pop() ?? "", /^read "\/state\/damaged\/pod\.json": /);
  await removePods(pods, deps, signal);
  const gone = "removed; its containers were gone";
  assert.deepEqual(reports.sort(), [`default/d-0: ${gone}`, `default/d-1: ${gone}`, `default/p: ${gone}`]);
  assert.deepEqual([...files.paths].sort(), ["/state/damaged/pod.json", "/state/plays.d/x"]);
});

test("podsToRemove() names workloads that have no pod", async () => {
  const { deps } = makeFixture();
  const { pods, missing } = await podsToRemove(await readRemoval(deployment(1)), deps, signal);
  assert.deepEqual([pods.length, missing.map(({ kind, name }) => `${kind}/${name}`)], [0, ["Deployment/d"]]);
});

test("a workload of 0 replicas is read, has a name for the supervisor, and keeps no pod", async () => {
  const { cri, deps, clock } = makeFixture();
  await using session = new Session(deps);
  await session.apply(await readWorkloads(deployment(2)), { keep: false }, signal);
  await clock.advance(0);
  assert.equal(cri.sandboxes.length, 2);
  const none = await readWorkloads(deployment(0));
  assert.deepEqual(namesOf(none), new Set(["default Deployment/d"]));
  const update = session.update(none, { obsolete: "remove" }, signal);
  await clock.advance(0);
  await update;
  assert.deepEqual(cri.sandboxes, []);
  assert.equal(await session.ended(signal), true);
});
