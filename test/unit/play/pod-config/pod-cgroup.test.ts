import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { cpuWeight, podCgroup, podCgroupPath } from "../../../../src/play/pod-config/pod-cgroup.js";
import { prepareCgroup, podCgroupsOf } from "../../../../src/play/node/prepare-cgroup.js";
import { sandboxConfig } from "../../../../src/play/pod-config/cri-config.js";
import { podHash } from "../../../../src/play/pod-config/hashes.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { makeFixture, podWith, uncheckedPodWith } from "../fake-cri.js";

const key = { uid: "u1" };
const node = { hugePageSizes: ["2MB", "1GB"] };
const { signal } = new AbortController();

const container = (name: string, resources: string): string =>
  `{name: ${name}, image: x, resources: ${resources}}`;

/**
 * Names; lines of the spec; CPU shares, CPU quota in microseconds per 100 ms and memory limit, as
 * ResourceConfigForPod of Kubernetes 1.36 has them ("-": not limited). MiB for memory.
 */
const table: readonly (readonly [string, string, readonly [number, number | "-", number | "-"]])[] = [
  ["BestEffort", `containers: [${container("a", "{}")}]`, [2, "-", "-"]],
  ["Guaranteed", `containers: [${container("a", "{limits: {cpu: 500m, memory: 64Mi}}")}]`, [512, 50_000, 64]],
  [
    "Guaranteed, two containers",
    `containers: [${container("a", "{limits: {cpu: 500m, memory: 64Mi}}")}, ${container("b", "{limits: {cpu: 1, memory: 36Mi}}")}]`,
    [1536, 150_000, 100],
  ],
  [
    "requests alone",
    `containers: [${container("a", "{requests: {cpu: 250m, memory: 8Mi}}")}]`,
    [256, "-", "-"],
  ],
  [
    "one container without a memory limit",
    `containers: [${container("a", "{limits: {cpu: 1, memory: 64Mi}}")}, ${container("b", "{limits: {cpu: 1}}")}]`,
    [2048, 200_000, "-"],
  ],
  [
    "requests below limits",
    `containers: [${container("a", "{requests: {cpu: 100m}, limits: {cpu: 2, memory: 64Mi}}")}]`,
    [102, 200_000, 64],
  ],
  [
    "at least 1 ms of CPU",
    `containers: [${container("a", "{limits: {cpu: 1m, memory: 64Mi}}")}]`,
    [2, 1000, 64],
  ],
  ["at most 262144 shares", `containers: [${container("a", "{requests: {cpu: 300}}")}]`, [262_144, "-", "-"]],
  [
    "a large init container",
    `initContainers: [${container("i", "{limits: {cpu: 2, memory: 100Mi}}")}]
  containers: [${container("a", "{limits: {cpu: 1, memory: 64Mi}}")}]`,
    [2048, 200_000, 100],
  ],
  [
    "a sidecar runs beside the containers",
    `initContainers: [{name: s, image: x, restartPolicy: Always, resources: {limits: {cpu: 500m, memory: 32Mi}}}]
  containers: [${container("a", "{limits: {cpu: 1, memory: 64Mi}}")}]`,
    [1536, 150_000, 96],
  ],
  [
    "an init container runs beside the sidecars before it",
    `initContainers:
  - {name: s, image: x, restartPolicy: Always, resources: {limits: {cpu: 500m, memory: 32Mi}}}
  - ${container("i", "{limits: {cpu: 1, memory: 200Mi}}")}
  containers: [${container("a", "{limits: {cpu: 1, memory: 64Mi}}")}]`,
    [1536, 150_000, 232],
  ],
  [
    "an init container without limits",
    `initContainers: [${container("i", "{}")}]
  containers: [${container("a", "{limits: {cpu: 1, memory: 64Mi}}")}]`,
    [1024, "-", "-"],
  ],
  [
    "an init container without limits, after a sidecar that has them",
    `initContainers:
  - {name: s, image: x, restartPolicy: Always, resources: {limits: {cpu: 500m, memory: 32Mi}}}
  - ${container("i", "{}")}
  containers: [${container("a", "{limits: {cpu: 1, memory: 64Mi}}")}]`,
    [1536, 150_000, 96],
  ],
  [
    "limits of the pod, whose requests are the limits",
    `resources: {limits: {cpu: 2, memory: 128Mi}}
  containers: [${container("a", "{}")}, ${container("b", "{}")}]`,
    [2048, 200_000, 128],
  ],
  [
    "limits of the pod, whose requests are those of the containers",
    `resources: {limits: {cpu: 2, memory: 128Mi}}
  containers: [${container("a", "{requests: {cpu: 250m}}")}, ${container("b", "{requests: {cpu: 250m}}")}]`,
    [512, 200_000, 128],
  ],
  [
    "a memory limit of the pod alone",
    `resources: {requests: {cpu: 1}, limits: {memory: 128Mi}}
  containers: [${container("a", "{limits: {cpu: 1}}")}, ${container("b", "{}")}]`,
    [1024, "-", 128],
  ],
  [
    "requests of the pod alone",
    `resources: {requests: {cpu: 1}}
  containers: [${container("a", "{limits: {cpu: 500m, memory: 64Mi}}")}]`,
    [1024, 50_000, 64],
  ],
];

for (const [name, spec, [shares, quota, memory]] of table) {
  test(`podCgroup(): ${name}`, async () => {
    const { pod } = await uncheckedPodWith(`  ${spec}`);
    const cgroup = podCgroup(key, pod.spec, "cgroupfs", node);
    const megabytes = cgroup.memoryBytes === undefined ? "-" : Number(cgroup.memoryBytes) / 1024 ** 2;
    const micros = cgroup.cpuQuotaMicros === undefined ? "-" : Number(cgroup.cpuQuotaMicros);
    assert.deepEqual([Number(cgroup.cpuShares), micros, megabytes], [shares, quota, memory]);
    assert.deepEqual(cgroup.hugePages, []);
  });
}

test("podCgroup() limits all sizes of huge pages when the pod has a limit of one", async () => {
  const { pod } = await uncheckedPodWith(
    `  resources: {limits: {hugepages-2Mi: 8Mi, memory: 1Gi}}\n  containers: [${container("a", "{}")}]`,
  );
  assert.deepEqual(podCgroup(key, pod.spec, "cgroupfs", node).hugePages, [
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
    const limits = "{limits: {memory: 64Mi}}";
    const ofContainer = await podWith(`  containers: [${container("a", limits)}]`);
    assert.equal(await prepareCgroup(ofContainer, deps), undefined);
    const ofPod = await podWith(`  resources: ${limits}\n  containers: [${container("a", "{}")}]`);
    assert.match((await prepareCgroup(ofPod, deps)) ?? "", /each container.*the test has none/);
    assert.deepEqual(files.calls, []);
  });
});
