import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { cpuWeight, podCgroup, podCgroupPath } from "../../../../src/play/pod-config/pod-cgroup.js";
import { prepareCgroup, podCgroupsOf } from "../../../../src/play/node/prepare-cgroup.js";
import { sandboxConfig } from "../../../../src/play/pod-config/cri-config.js";
import { podHash } from "../../../../src/play/pod-config/hashes.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { makeFixture, podWith, uncheckedPodWith } from "../fake-cri.js";

const node = { hugePageSizes: ["2MB", "1GB"] };
const { signal } = new AbortController();

/** Containers a, b … with these resources. */
const list = (...resources: readonly string[]): string =>
  resources.map((each, at) => `{name: ${"abc"[at] ?? ""}, image: x, resources: {${each}}}`).join(", ");
const of = (...resources: readonly string[]): string => `containers: [${list(...resources)}]`;
const whole = "limits: {cpu: 1, memory: 64Mi}";
const half = "limits: {cpu: 500m, memory: 64Mi}";
const sidecar = "{name: s, image: x, restartPolicy: Always, resources: {limits: {cpu: 500m, memory: 32Mi}}}";
const init = (resources: string): string => `{name: i, image: x, resources: {${resources}}}`;
const after = (inits: string): string => `initContainers: [${inits}]\n  ${of(whole)}`;
const inPod = (resources: string, ...containers: readonly string[]): string =>
  `resources: {${resources}}\n  ${of(...containers)}`;

/**
 * Names; lines of the spec; CPU shares, CPU quota in microseconds per 100 ms and memory limit, as
 * ResourceConfigForPod of Kubernetes 1.36 has them ("-": not limited). MiB for memory.
 */
const table: readonly (readonly [string, string, readonly [number, number | "-", number | "-"]])[] = [
  ["BestEffort", of(""), [2, "-", "-"]],
  ["Guaranteed", of(half), [512, 50_000, 64]],
  ["Guaranteed, two containers", of(half, "limits: {cpu: 1, memory: 36Mi}"), [1536, 150_000, 100]],
  ["requests alone", of("requests: {cpu: 250m, memory: 8Mi}"), [256, "-", "-"]],
  ["one container without a memory limit", of(whole, "limits: {cpu: 1}"), [2048, 200_000, "-"]],
  ["requests below limits", of("requests: {cpu: 100m}, limits: {cpu: 2, memory: 64Mi}"), [102, 200_000, 64]],
  ["at least 1 ms of CPU", of("limits: {cpu: 1m, memory: 64Mi}"), [2, 1000, 64]],
  ["at most 262144 shares", of("requests: {cpu: 300}"), [262_144, "-", "-"]],
  ["a large init container", after(init("limits: {cpu: 2, memory: 100Mi}")), [2048, 200_000, 100]],
  ["a sidecar runs beside the containers", after(sidecar), [1536, 150_000, 96]],
  [
    "an init container runs beside the sidecars before it",
    after(`${sidecar}, ${init("limits: {cpu: 1, memory: 200Mi}")}`),
    [1536, 150_000, 232],
  ],
  ["an init container without limits", after(init("")), [1024, "-", "-"]],
  ["an init container without, after a sidecar", after(`${sidecar}, ${init("")}`), [1536, 150_000, 96]],
  ["limits of the pod, as requests", inPod("limits: {cpu: 2, memory: 128Mi}", "", ""), [2048, 200_000, 128]],
  [
    "limits of the pod, whose requests are those of the containers",
    inPod("limits: {cpu: 2, memory: 128Mi}", "requests: {cpu: 250m}", "requests: {cpu: 250m}"),
    [512, 200_000, 128],
  ],
  [
    "a memory limit of the pod alone",
    inPod("requests: {cpu: 1}, limits: {memory: 128Mi}", "limits: {cpu: 1}", ""),
    [1024, "-", 128],
  ],
  ["requests of the pod alone", inPod("requests: {cpu: 1}", half), [1024, 50_000, 64]],
];

for (const [name, spec, [shares, quota, memory]] of table)
  test(`podCgroup(): ${name}`, async () => {
    const { pod } = await uncheckedPodWith(`  ${spec}`);
    const cgroup = podCgroup("u1", pod.spec, "cgroupfs", node);
    const megabytes = cgroup.memoryBytes === undefined ? "-" : Number(cgroup.memoryBytes) / 1024 ** 2;
    const micros = cgroup.cpuQuotaMicros === undefined ? "-" : Number(cgroup.cpuQuotaMicros);
    assert.deepEqual([Number(cgroup.cpuShares), micros, megabytes], [shares, quota, memory]);
    assert.deepEqual(cgroup.hugePages, []);
  });

test("podCgroup() limits all sizes of huge pages when the pod has a limit of one", async () => {
  const { pod } = await uncheckedPodWith(`  ${inPod("limits: {hugepages-2Mi: 8Mi, memory: 1Gi}", "")}`);
  assert.deepEqual(podCgroup("u1", pod.spec, "cgroupfs", node).hugePages, [
    { size: "2MB", limitBytes: 8n * 1024n ** 2n },
    { size: "1GB", limitBytes: 0n },
  ]);
});

test("cpuWeight() is the kubelet's", () => {
  const pairs = [2n, 102n, 1024n, 2048n, 262_144n].map((shares) => [shares, cpuWeight(shares)]);
  assert.deepEqual(pairs, [
    [2n, 1n],
    [102n, 4n],
    [1024n, 39n],
    [2048n, 79n],
    [262_144n, 10_000n],
  ]);
});

describe("cgroup_parent", () => {
  test("is a path for cgroupfs, and nested slices without hyphens of their own for systemd", () => {
    const uid = "1a2b-3c4d";
    assert.equal(podCgroupPath(uid, "cgroupfs"), "/dockershim-play/pod1a2b-3c4d");
    assert.equal(podCgroupPath(uid, "systemd"), "/dockershimplay.slice/dockershimplay-pod1a2b_3c4d.slice");
  });

  test("is in the sandbox's configuration when play makes cgroups, and does not change the pod", async () => {
    const { deps } = makeFixture();
    const manifest = await podWith("  containers: [{name: a, image: x}]");
    const configOf = (podCgroups: typeof deps.node.podCgroups) =>
      sandboxConfig(manifest, 0, { ...deps.node, podCgroups }, deps.directories);
    assert.equal(configOf({ reason: "none" }).linux?.cgroup_parent, "");
    const config = configOf({ driver: "cgroupfs" });
    assert.equal(config.linux?.cgroup_parent, "/dockershim-play/poduid-1");
    assert.equal(config.annotations?.["dockershim.local/play-hash"], podHash(manifest));
  });
});

describe("where play can make no cgroups", () => {
  test("podCgroupsOf() says why: no RuntimeConfig, or cgroups out of reach", async () => {
    const files = { checkCgroups: () => Promise.reject(new ShimError("unsupported", "read-only")) };
    const without = { cgroupDriver: () => Promise.resolve(undefined) };
    const reason = "the CRI server does not report its cgroup driver";
    assert.deepEqual(await podCgroupsOf(without, files, signal), { reason });
    const systemd = { cgroupDriver: () => Promise.resolve("systemd" as const) };
    assert.deepEqual(await podCgroupsOf(systemd, files, signal), { reason: "read-only" });
    const inReach = { checkCgroups: () => Promise.resolve() };
    assert.deepEqual(await podCgroupsOf(systemd, inReach, signal), { driver: "systemd" });
  });

  test("prepareCgroup() tells only pods with limits of their own", async () => {
    const { deps, files } = makeFixture();
    const limits = "limits: {memory: 64Mi}";
    const ofContainer = await podWith(`  ${of(limits)}`);
    assert.equal(await prepareCgroup(ofContainer, deps), undefined);
    const ofPod = await podWith(`  ${inPod(limits, "")}`);
    assert.match((await prepareCgroup(ofPod, deps)) ?? "", /each container.*the test has none/);
    assert.deepEqual(files.calls, []);
  });
});
