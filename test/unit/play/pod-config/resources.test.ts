import assert from "node:assert/strict";
import { test } from "node:test";
import { linuxResources, qosClass } from "../../../../src/play/pod-config/resources.js";
import { podWith } from "../fake-cri.js";

const node = {
  memoryBytes: 4_000_000_000n,
  cgroupVersion: 1,
  hugePageSizes: [],
  hasHugePageLimits: true,
} as const;

/** resources of the first container → class, shares, quota, memory limit, oom_score_adj as of the kubelet. */
const cases: readonly (readonly [string, string, readonly [string, string, string, string]])[] = [
  ["{}", "BestEffort", ["2", "0", "0", "1000"]],
  ["{limits: {cpu: 0}}", "BestEffort", ["2", "0", "0", "1000"]],
  ["{requests: {cpu: 250m}}", "Burstable", ["256", "0", "0", "999"]],
  ["{requests: {memory: 1G}}", "Burstable", ["2", "0", "0", "750"]],
  ["{limits: {cpu: 500m}}", "Burstable", ["512", "50000", "0", "999"]],
  ["{limits: {cpu: 5m}}", "Burstable", ["5", "1000", "0", "999"]],
  ["{limits: {memory: 64Mi}}", "Burstable", ["2", "0", "67108864", "984"]],
  ["{limits: {cpu: 1, memory: 2G}}", "Guaranteed", ["1024", "100000", "2000000000", "-997"]],
  [
    "{requests: {cpu: 500m}, limits: {cpu: 1, memory: 2G}}",
    "Burstable",
    ["512", "100000", "2000000000", "500"],
  ],
  ["{requests: {memory: 5G}}", "Burstable", ["2", "0", "0", "3"]],
  ["{requests: {cpu: 1000}}", "Burstable", ["262144", "0", "0", "999"]],
];

for (const [resources, qos, [shares, quota, memory, oom]] of cases)
  test(`linuxResources() of ${resources} is ${qos}`, async () => {
    const { pod } = await podWith(`  containers: [{name: c, image: x, resources: ${resources}}]`);
    const [container] = pod.spec.containers;
    assert.ok(container);
    assert.equal(qosClass(pod.spec), qos);
    assert.deepEqual(linuxResources(container, pod.spec, node), {
      cpu_period: "100000",
      cpu_quota: quota,
      cpu_shares: shares,
      memory_limit_in_bytes: memory,
      oom_score_adj: oom,
      hugepage_limits: [],
    });
  });

test("a pod of the class system-node-critical has the OOM score of a Guaranteed one", async () => {
  const { pod } = await podWith(
    "  priorityClassName: system-node-critical\n  containers: [{name: c, image: x}]",
  );
  assert.equal(linuxResources(pod.spec.containers[0] ?? assert.fail(), pod.spec, node).oom_score_adj, "-997");
  const other = await podWith(
    "  priorityClassName: system-cluster-critical\n  containers: [{name: c, image: x}]",
  );
  assert.equal(other.pod.spec.priorityClassName, undefined);
});

test("qosClass() counts init containers", async () => {
  const limits = "resources: {limits: {cpu: 1, memory: 1G}}";
  const { pod } = await podWith(
    `  containers: [{name: c, image: x, ${limits}}]\n  initContainers: [{name: i, image: x}]`,
  );
  assert.equal(qosClass(pod.spec), "Burstable");
});

test("linuxResources() limits each size of huge pages, and ends a container as a whole on cgroup v2", async () => {
  const { pod } = await podWith(
    "  containers: [{name: c, image: x, resources: {limits: {hugepages-2Mi: 8Mi, memory: 1G}}}]",
  );
  const [container] = pod.spec.containers;
  assert.ok(container);
  const sizes = { ...node, cgroupVersion: 2, hugePageSizes: ["2MB", "1GB"] } as const;
  const { hugepage_limits, unified } = linuxResources(container, pod.spec, sizes);
  assert.deepEqual(hugepage_limits, [
    { page_size: "2MB", limit: "8388608" },
    { page_size: "1GB", limit: "0" },
  ]);
  assert.deepEqual(unified, { "memory.oom.group": "1" });
  const without = linuxResources(container, pod.spec, { ...sizes, hasHugePageLimits: false });
  // What the manifest asks for is sent all the same: it must not be dropped in silence.
  assert.deepEqual(without.hugepage_limits, [{ page_size: "2MB", limit: "8388608" }]);
});

test("resources of the pod decide on its class, limit containers without limits, and share their request", async () => {
  const { pod } = await podWith(
    [
      "  resources: {requests: {memory: 2G}, limits: {cpu: 2, memory: 3G}}",
      "  containers: [{name: a, image: x}, {name: b, image: x, resources: {requests: {memory: 1G}, limits: {memory: 2G}}}]",
    ].join("\n"),
  );
  assert.equal(qosClass(pod.spec), "Burstable");
  const [first, second] = pod.spec.containers.map((one) => linuxResources(one, pod.spec, node));
  assert.equal(first?.memory_limit_in_bytes, "3000000000");
  assert.equal(first.cpu_quota, "200000");
  assert.equal(first.cpu_shares, "2048");
  assert.equal(first.oom_score_adj, "875");
  assert.equal(second?.memory_limit_in_bytes, "2000000000");
  assert.equal(second.oom_score_adj, "625");
});

test("a sidecar is not killed before the container with the smallest request", async () => {
  const request = (memory: string) => `resources: {requests: {memory: ${memory}}}`;
  const { pod } = await podWith(
    [
      `  containers: [{name: a, image: x, ${request("2G")}}, {name: b, image: x, ${request("1G")}}]`,
      `  initContainers: [{name: s, image: x, restartPolicy: Always, ${request("100M")}}]`,
    ].join("\n"),
  );
  const [sidecar] = pod.spec.initContainers ?? [];
  assert.ok(sidecar);
  assert.equal(linuxResources(sidecar, pod.spec, node).oom_score_adj, "750");
});
