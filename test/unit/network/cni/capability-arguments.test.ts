import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  bandwidthOf,
  podArguments,
  podCapabilities,
  requireSayable,
} from "../../../../src/network/cni/capability-arguments.js";
import type { PodNetworkRequest } from "../../../../src/shim/ports/network-plugin.js";

const pod: PodNetworkRequest = {
  namespace: "default",
  name: "web",
  uid: "u-1",
  sandboxId: "abc",
  netns: "/proc/42/ns/net",
  annotations: { "kubernetes.io/egress-bandwidth": "1M", other: "x" },
  portMappings: [
    { protocol: "tcp", containerPort: 80, hostPort: 18080, hostIp: "" },
    { protocol: "udp", containerPort: 53, hostPort: 0, hostIp: "" },
    { protocol: "sctp", containerPort: 9, hostPort: 99, hostIp: "127.0.0.1" },
  ],
  cgroupParent: "/kubepods/pod1",
  dns: { servers: ["10.96.0.10"], searches: ["cluster.local"], options: ["ndots:5"] },
};
const everything = new Set([
  ...["portMappings", "bandwidth", "ipRanges", "dns", "cgroupPath", "aliases"],
  ...["io.kubernetes.cri.pod-annotations", "mac"],
]);

test("podCapabilities() knows all that a plugin can declare", () => {
  assert.deepEqual(podCapabilities(pod, ["10.1.0.0/24", "fd00::/64"], everything), {
    portMappings: [
      { hostPort: 18080, containerPort: 80, protocol: "tcp", hostIP: "" },
      { hostPort: 99, containerPort: 9, protocol: "sctp", hostIP: "127.0.0.1" },
    ],
    bandwidth: { egressRate: 1_000_000, egressBurst: 2147483647 },
    ipRanges: [[{ subnet: "10.1.0.0/24" }], [{ subnet: "fd00::/64" }]],
    dns: { servers: ["10.96.0.10"], searches: ["cluster.local"], options: ["ndots:5"] },
    cgroupPath: "/kubepods/pod1",
    aliases: ["web"],
    "io.kubernetes.cri.pod-annotations": pod.annotations,
  });
});

test("podCapabilities() offers nothing that no plugin declares, and no empty values", () => {
  assert.deepEqual(podCapabilities(pod, [], new Set(["dns"])), { dns: pod.dns });
  const bare: PodNetworkRequest = { ...pod, annotations: {}, portMappings: [], cgroupParent: "" };
  const { dns: _dns, ...withoutDns } = bare;
  assert.deepEqual(podCapabilities(withoutDns, [], everything), { aliases: ["web"] });
});

test("requireSayable() refuses a value that would smuggle in another argument", () => {
  assert.throws(() => requireSayable(podArguments({ ...pod, name: "web;K8S_POD_NAMESPACE=kube-system" })), {
    kind: "invalid",
  });
});

describe("bandwidthOf()", () => {
  const rates: readonly (readonly [string, number])[] = [
    ["10M", 10_000_000],
    ["1Mi", 1_048_576],
    ["500k", 500_000],
    ["1e6", 1_000_000],
    ["1k", 1000],
    ["1P", 1e15],
    ["1000.5", 1001],
  ];
  for (const [text, rate] of rates) {
    test(`${text} is ${rate} bit/s`, () => {
      assert.deepEqual(bandwidthOf({ "kubernetes.io/ingress-bandwidth": text }), {
        ingressRate: rate,
        ingressBurst: 2147483647,
      });
    });
  }

  const faults: readonly (readonly [string, RegExp])[] = [
    ["999", /unreasonably small \(< 1kbit\)/],
    ["-5M", /unreasonably small/],
    ["1.1P", /unreasonably large \(> 1Pbit\)/],
    ["fast", /not a quantity/],
    ["", /not a quantity/],
  ];
  for (const [text, reason] of faults) {
    test(`${JSON.stringify(text)} is refused`, () => {
      assert.throws(() => bandwidthOf({ "kubernetes.io/egress-bandwidth": text }), {
        kind: "invalid",
        message: reason,
      });
    });
  }
});
