/** Which unit serves the kubelet's socket, and what else starts a kubelet, by the processes that run. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { configuredRuntime, unknownStart } from "../../../src/migrate/kubelet/target.js";
import { factsOf } from "./plan-bed.js";
import { goldenNode, makeNode, type NodeTree } from "./nodes.js";

const unixLine = (inode: string, path: string): string =>
  `Num RefCount Protocol Flags Type St Inode Path\n0000: 00000002 00000000 00010000 0001 01 ${inode} ${path}\n`;

function processOf(unit: string, more: NodeTree = {}): NodeTree {
  return { "/proc/7/cgroup": `0::/system.slice/${unit}\n`, ...more };
}

for (const [unit, runtime] of [
  ["cri-dockerd.service", "cri-dockerd"],
  ["containerd.service", "containerd"],
  ["relay.service", "unknown"],
] as const) {
  test(`a socket that a process of ${unit} listens on is that of ${runtime}`, async (t) => {
    const root = await makeNode(t, {
      ...goldenNode("old-socket-name-1.24").tree,
      "/usr/lib/systemd/system/containerd.service": "[Service]\nExecStart=/usr/bin/containerd\n",
      "/proc/net/unix": unixLine("99", "/run/dockershim.sock"),
      ...processOf(unit, { "/proc/7/fd/3": { linkTo: "socket:[99]" } }),
    });
    assert.equal(configuredRuntime(await factsOf(root, "1.24.9")).runtime, runtime);
  });
}

for (const [unit, id] of [
  ["kubelet.service", undefined],
  ["kubelet@blue.service", "kubelet-elsewhere"],
] as const) {
  test(`a kubelet that runs in ${unit} is ${id ?? "that of its unit"}`, async (t) => {
    const root = await makeNode(t, {
      ...goldenNode("kubeadm-1.30").tree,
      ...processOf(unit, { "/proc/7/cmdline": "/usr/bin/kubelet\0--v=2\0" }),
    });
    assert.equal(unknownStart(await factsOf(root, "1.30.1"))?.id, id);
  });
}

test("two enabled units at one socket leave the runtime unknown", async (t) => {
  const root = await makeNode(t, {
    ...goldenNode("old-socket-name-1.24").tree,
    "/etc/systemd/system/dockershim.service": "[Service]\nExecStart=/opt/dockershim/bin/dockershim\n",
    "/etc/systemd/system/multi-user.target.wants/dockershim.service": { linkTo: "../dockershim.service" },
  });
  assert.equal(configuredRuntime(await factsOf(root, "1.24.9")).runtime, "unknown");
});
