import assert from "node:assert/strict";
import { test } from "node:test";
import { readRemoval, readWorkloads } from "../../../../src/play/manifests/read-manifests.js";
import { podsToRemove, removePods, removeSurplus } from "../../../../src/play/session/remove-pods.js";
import { Session } from "../../../../src/play/session/session.js";
import { namesOf } from "../../../../src/play/store/play-store.js";
import { serverDirectories, serverId } from "../../../../src/play/pod-config/pod-paths.js";
import { PodSandboxState } from "../../../../src/domain/cri.js";
import { until } from "../../../fakes/turns.js";
import { FakeCri, type Fixture, makeFixture } from "../fake-cri.js";

const { signal } = new AbortController();
const deployment = (replicas: number) => [
  {
    name: "f.yaml",
    text: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: ${replicas},
      selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {
      terminationGracePeriodSeconds: 0, containers: [{name: c, image: "busybox:1"}]}}}}`,
  },
];

/** By a play that has ended. */
async function played(deps: Fixture["deps"], workloads: Parameters<Session["apply"]>[0]): Promise<void> {
  await using session = new Session(deps);
  await session.apply(workloads, { keep: false }, signal);
}

test("removePods() gives the grace period that is asked for, and says what it waits for when that takes long", async () => {
  const { cri, deps, clock, reports } = makeFixture();
  const { pods } = await readWorkloads(deployment(1));
  await played(deps, { pods, jobs: [], cronJobs: [] });
  let stop = (): void => undefined;
  const stopped = new Promise<void>((resolve) => (stop = resolve));
  const graces: number[] = [];
  const stopContainer = cri.stopContainer.bind(cri);
  cri.stopContainer = async (id, graceSeconds) => {
    graces.push(graceSeconds);
    await stopped;
    await stopContainer(id, graceSeconds);
  };
  const removal = removePods(pods, deps, signal, { graceSeconds: 7 });
  await clock.advance(2900);
  assert.deepEqual(reports, []);
  await clock.advance(200);
  assert.deepEqual(reports, ["default/d-0: waiting for the end of c"]);
  stop();
  assert.deepEqual([await removal, graces], [{ failed: 0, left: [] }, [7]]);
});

test("removePods() removes sandboxes of the pod whose containers another program has removed", async () => {
  const { cri, deps } = makeFixture();
  const { pods } = await readWorkloads(deployment(1));
  await played(deps, { pods, jobs: [], cronJobs: [] });
  for (const name of ["d-0", "other"]) {
    const config = { metadata: { name, namespace: "default", uid: "" }, labels: {} };
    cri.sandboxes.push({ id: `lost ${name}`, config, state: PodSandboxState.SANDBOX_NOTREADY, createdAt: 0 });
  }
  assert.deepEqual(await removePods(pods, deps, signal), { failed: 0, left: [] });
  const ids = cri.sandboxes.map(({ id }) => id);
  assert.deepEqual(ids, ["lost other"]);
});

for (const fails of [false, true])
  test(`removeSurplus() ${fails ? "counts and reports pods that cannot be removed" : "removes pods of a workload that had more"}`, async () => {
    const { cri, deps, clock, reports } = makeFixture();
    await played(deps, await readWorkloads(deployment(2)));
    if (fails) cri.failOn = "removePodSandbox d-1";
    const { pods } = await readWorkloads(deployment(1));
    const removal = removeSurplus(deployment(1), pods, deps, signal);
    await clock.advance(1000);
    assert.deepEqual(await removal, { failed: fails ? 1 : 0 });
    const text = reports.at(-1) ?? "";
    assert.match(text, fails ? /^default\/d-1: cannot be removed: / : /^default\/d-1: removed$/);
  });

test("of pods whose containers are gone, the files are found and removed", async () => {
  const { cri, files, deps, reports } = makeFixture();
  const pod =
    "{apiVersion: v1, kind: Pod, metadata: {name: p, uid: u-1}, spec: {containers: [{name: c, image: 'busybox:1'}]}}";
  const texts = [...deployment(2), { name: "p.yaml", text: pod }];
  await played(deps, await readWorkloads(texts));
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

test("files of a pod without containers here stay where another CRI server may have made them", async () => {
  const { cri, files, deps, reports } = makeFixture();
  const shared = (sharedBy: string): typeof deps => ({
    ...deps,
    directories: { ...deps.directories, sharedBy },
  });
  const pod =
    "{apiVersion: v1, kind: Pod, metadata: {name: p, uid: u-1}, spec: {containers: [{name: c, image: 'busybox:1'}]}}";
  const texts = [...deployment(1), { name: "p.yaml", text: pod }];
  await played(shared("one"), await readWorkloads(texts));
  cri.sandboxes.length = 0;
  cri.containers.length = 0;
  const before = [...files.paths];
  const removal = await readRemoval(texts);
  const other = await podsToRemove(removal, shared("other"), signal);
  const found = [other.pods.map(({ key }) => key.name), other.missing.map(({ name }) => name)];
  assert.deepEqual(found, [["p"], ["d"]]);
  assert.deepEqual(await removePods(other.pods, shared("other"), signal), { failed: 1, left: [] });
  assert.deepEqual(reports.splice(0), [
    "default/p: not removed: /state/u-1: its containers are gone, or at another CRI server",
  ]);
  assert.deepEqual([...files.paths], before);
  const record = files.texts.get("/state/u-1/pod.json") ?? "";
  files.texts.set("/state/u-1/pod.json", "{");
  assert.deepEqual(await removePods(other.pods, shared("one"), signal), { failed: 1, left: [] });
  assert.match(reports.splice(0).join(), /^default\/p: not removed: \/state\/u-1: its containers are gone/);
  files.texts.set("/state/u-1/pod.json", record);
  const own = await podsToRemove(removal, shared("one"), signal);
  assert.deepEqual(await removePods(own.pods, shared("one"), signal), { failed: 0, left: [] });
  assert.deepEqual([...files.paths], []);
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

test("a pod of one server is apart from that of the same name at another, also when it is removed", async () => {
  const { cri, files, deps, clock } = makeFixture();
  const driver = "systemd";
  const node = { ...deps.node, podCgroups: { driver } } as const;
  const other = new FakeCri(clock);
  const volumes = "volumes: [{name: v, emptyDir: {}}, {name: d, persistentVolumeClaim: {claimName: d}}]";
  const text = `{apiVersion: v1, kind: Pod, metadata: {name: p, uid: u-1}, spec: {${volumes}, terminationGracePeriodSeconds: 0,
    containers: [{name: c, image: "busybox:1", volumeMounts: [{name: v, mountPath: /v}, {name: d, mountPath: /d}]}]}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: d}, spec: {accessModes: [ReadWriteOnce],
  resources: {requests: {storage: 1Mi}}}}`;
  const workloads = await readWorkloads([{ name: "f.yaml", text }]);
  const at = (client: FakeCri, endpoint?: string) => ({
    ...{ ...deps, client, node, playId: endpoint ?? "first" },
    directories: endpoint === undefined ? deps.directories : serverDirectories(deps.directories, endpoint),
  });
  await using first = new Session(at(cri));
  await first.apply(workloads, { keep: false }, signal);
  const before = [new Set(files.paths), new Set(files.cgroups.keys())];
  await using second = new Session(at(other, "unix:///run/other.sock"));
  await second.apply(workloads, { keep: false }, signal);
  const id = serverId("/run/other.sock");
  assert.deepEqual([...files.cgroups.keys()], ["u-1", `u-1.${id}`]);
  const config = other.sandboxes[0]?.config;
  assert.equal(config?.log_directory, `/logs/default_p_u-1.${id}`);
  assert.equal(config.linux?.cgroup_parent, `/dockershimplay.slice/dockershimplay-podu_1.${id}.slice`);
  const mounts = other.containers[0]?.config.mounts?.map(({ host_path }) => host_path ?? "") ?? [];
  const own = `/state/servers.d/${id}/u-1/`;
  const found = mounts.every((path) => path.startsWith(own) || path === "/state/claims.d/default/d");
  assert.ok(found, String(mounts));

  const removal = removePods(workloads.pods, at(other, "unix:///run/other.sock"), signal);
  await clock.advance(1000);
  await removal;
  assert.deepEqual([files.paths, new Set(files.cgroups.keys())], before);
  assert.equal(cri.sandboxes.length, 1);
  assert.equal(first.kubelet.pods[0]?.loss, undefined);
});

test("pods of a socket that the node has no more go on at another one with their files, and leave none", async () => {
  const { cri, files, deps, clock, reports } = makeFixture();
  const at = (endpoint?: string, playId = "first") => {
    const own = endpoint === undefined ? deps.directories : serverDirectories(deps.directories, endpoint);
    return { ...deps, playId, directories: { ...own, ofOtherServers: new Map() } };
  };
  const text =
    "{apiVersion: v1, kind: Pod, metadata: {name: p, uid: u-1}, spec: {volumes: [{name: v, emptyDir: {}}], containers: " +
    "[{name: c, image: 'busybox:1', volumeMounts: [{name: v, mountPath: /v}]}]}}";
  const texts = [{ name: "p.yaml", text }];
  await played(at("/run/cri-dockerd.sock"), await readWorkloads(texts));
  const isThere = (): boolean =>
    [...files.paths].every((path) => path.includes(serverId("/run/cri-dockerd.sock")));
  assert.ok(isThere());
  {
    await using session = new Session(at(undefined, "next"));
    await session.apply(await readWorkloads(texts), { keep: false }, signal);
    await clock.advance(0);
    // Its sandbox ends, and the data stays.
    for (const sandbox of cri.sandboxes) sandbox.state = PodSandboxState.SANDBOX_NOTREADY;
    session.kubelet.pods[0]?.wake();
    await clock.advance(40_000);
  }
  assert.deepEqual(
    cri.sandboxes.map(({ config }) => config.annotations?.["dockershim.local/play-server"]),
    [1, 2].map(() => serverId("/run/cri-dockerd.sock")),
  );
  assert.ok(isThere(), String([...files.paths]));
  const now = at();
  const { pods } = await podsToRemove(await readRemoval(texts), now, signal);
  const removal = removePods(pods, now, signal);
  await clock.advance(40_000);
  assert.deepEqual(await removal, { failed: 0, left: [] });
  assert.deepEqual([...files.paths], []);
  assert.deepEqual(reports.at(-1), "default/p: removed");
});

test("--down beside the first sandbox of another play waits until that is there, and leaves nothing", async () => {
  const { cri, files, deps, clock } = makeFixture();
  const texts = [{ name: "f.yaml", text: deployment(1)[0]?.text ?? "" }];
  let make = (): void => undefined;
  const isMade = new Promise<void>((resolve) => (make = resolve));
  const run = cri.runPodSandbox.bind(cri);
  let isAsked = false;
  cri.runPodSandbox = async (...request) => {
    isAsked = true;
    await isMade;
    return run(...request);
  };
  await using session = new Session(deps);
  const workloads = await readWorkloads(texts);
  const applied = assert.rejects(
    session.apply(workloads, { keep: false }, signal),
    /another play has removed the pod/,
  );
  await until("the sandbox is being made", () => isAsked);
  const other = { ...deps, processes: { ...deps.processes, own: "2" } };
  let hasEnded = false;
  const removal = removePods(workloads.pods, other, signal).finally(() => (hasEnded = true));
  await clock.advance(1000);
  const hasNotWaited = hasEnded;
  make();
  await clock.advance(1000);
  assert.equal(hasNotWaited, false);
  await Promise.all([removal, applied]);
  assert.deepEqual(cri.sandboxes, []);
  assert.deepEqual([...files.paths], []);
});
