import assert from "node:assert/strict";
import { test } from "node:test";
import { linuxResources, qosClass } from "../../../../src/play/containers/resources.js";
import { podWith } from "../fake-cri.js";

const nodeMemoryBytes = 4_000_000_000n;

/**
 * resources of the first container → class, shares, quota, memory limit, oom_score_adj as the kubelet
 * computes them.
 */
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

for (const [resources, qos, [shares, quota, memory, oom]] of cases) {
  test(`linuxResources() of ${resources} is ${qos}`, async () => {
    const { pod } = await podWith(`  containers: [{name: c, image: x, resources: ${resources}}]`);
    const [container] = pod.spec.containers;
    assert.ok(container);
    assert.equal(qosClass(pod.spec), qos);
    assert.deepEqual(linuxResources(container, qosClass(pod.spec), nodeMemoryBytes), {
      cpu_period: "100000",
      cpu_quota: quota,
      cpu_shares: shares,
      memory_limit_in_bytes: memory,
      oom_score_adj: oom,
    });
  });
}

test("qosClass() counts init containers", async () => {
  const limits = "resources: {limits: {cpu: 1, memory: 1G}}";
  const { pod } = await podWith(
    `  containers: [{name: c, image: x, ${limits}}]\n  initContainers: [{name: i, image: x}]`,
  );
  assert.equal(qosClass(pod.spec), "Burstable");
});
