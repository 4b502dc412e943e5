/** Which unit serves the kubelet's socket, and what else starts a kubelet, by the processes that run. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { configuredRuntime, unknownStart, wrappedRuntimes } from "../../../src/migrate/kubelet/target.js";
import { NodeFiles } from "../../../src/migrate/files/node-files.js";
import { listenerOf } from "../../../src/migrate/node/listeners.js";
import { startedPrograms } from "../../../src/migrate/node/cri-servers.js";
import { splitWords } from "../../../src/migrate/systemd/words.js";
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
] as const)
  test(`a socket that a process of ${unit} listens on is that of ${runtime}`, async (t) => {
    const root = makeNode(t, {
      ...goldenNode("old-socket-name-1.24").tree,
      "/usr/lib/systemd/system/containerd.service": "[Service]\nExecStart=/usr/bin/containerd\n",
      "/proc/net/unix": unixLine("99", "/run/dockershim.sock"),
      ...processOf(unit, { "/proc/7/fd/3": { linkTo: "socket:[99]" } }),
    });
    assert.equal(configuredRuntime(await factsOf(root, "1.24.9")).runtime, runtime);
  });

for (const [unit, id] of [
  ["kubelet.service", undefined],
  ["kubelet@blue.service", "kubelet-elsewhere"],
  ["session-3.scope", "kubelet-elsewhere"],
] as const)
  test(`a kubelet that runs in ${unit} is ${id ?? "that of its unit"}`, async (t) => {
    const root = makeNode(t, {
      ...goldenNode("kubeadm-1.30").tree,
      ...processOf(unit, { "/proc/7/cmdline": "/usr/bin/kubelet\0--v=2\0" }),
    });
    assert.equal(unknownStart(await factsOf(root, "1.30.1"))?.id, id);
  });

test("a kubelet in a container is in no service, also beside cgroup version 1", async (t) => {
  const root = makeNode(t, {
    ...goldenNode("kubeadm-1.30").tree,
    "/proc/7/cgroup": "4:pids:/docker/ab\n1:name=systemd:/docker/ab\n0::/system.slice/containerd.service\n",
    "/proc/7/cmdline": "kubelet\0--v=2\0",
  });
  assert.equal(unknownStart(await factsOf(root, "1.30.1"))?.source, "no service (process 7)");
});

test("a unit with the kubelet's own spelling of a socket below a link serves it", async (t) => {
  const root = makeNode(t, {
    ...goldenNode("dockershim-1.30").tree,
    "/run/dockershim.sock": { linkTo: "/run/shim/a.sock" },
  });
  assert.equal(configuredRuntime(await factsOf(root, "1.30.1")).runtime, "dockershim");
});

test("a unit is found among any number of others", async (t) => {
  const { tree } = goldenNode("dockershim-1.30");
  const others = Array.from({ length: 600 }, (_, index) => [`/etc/systemd/system/a${index}.mount`, ""]);
  const root = makeNode(t, { ...tree, ...(Object.fromEntries(others) as NodeTree) });
  assert.equal(configuredRuntime(await factsOf(root, "1.30.1")).runtime, "dockershim");
});

for (const [what, tree] of [
  ["its executable", { "/opt/dockershim/bin/dockershim": "\u007fELF" }],
  ["a script", { "/opt/dockershim/bin/dockershim": "#!/bin/sh\n", "/opt/dockershim/dist/launch.cjs": "" }],
  [
    "a link to it",
    { "/opt/dockershim/bin/dockershim": { linkTo: "/usr/bin/dockershim-1" }, "/usr/bin/dockershim-1": "" },
  ],
] satisfies readonly (readonly [string, NodeTree])[])
  test(`a unit of this program that starts ${what} is understood`, async (t) => {
    const root = makeNode(t, { ...goldenNode("dockershim-1.30").tree, ...tree });
    assert.deepEqual(wrappedRuntimes(await factsOf(root, "1.30.1")), []);
  });

for (const [command, names] of [
  ["/usr/bin/kubelet --root-dir=/var/lib/kubelet", "kubelet"],
  ["/bin/sh -c 'A=1 exec kubelet --x'", "sh kubelet"],
  ["/bin/bash -c 'sleep 1 && /opt/k8s/kubelet --x'", "bash sleep kubelet"],
  ["/usr/bin/env kubelet", "env kubelet"],
  ["/usr/bin/docker start -a kubelet", "docker kubelet"],
  ["/usr/bin/docker run -v /var/lib/kubelet:/var/lib/kubelet x/hyperkube:v1 kubelet", "docker kubelet"],
  ["/bin/sh -c 'systemctl restart kubelet'", "sh systemctl"],
  ["/bin/sh -c 'ls /var/lib/kubelet'", "sh ls"],
  ["/usr/bin/backup /usr/bin/kubelet", "backup"],
] as const)
  test(`"${command}" starts ${names}`, () => {
    const words = (splitWords(command) ?? []).map(({ text }) => ({ text }));
    assert.equal(startedPrograms(words).join(" "), names);
  });

test("two enabled units at one socket leave the runtime unknown", async (t) => {
  const root = makeNode(t, {
    ...goldenNode("old-socket-name-1.24").tree,
    "/etc/systemd/system/dockershim.service": "[Service]\nExecStart=/opt/dockershim/bin/dockershim\n",
    "/etc/systemd/system/multi-user.target.wants/dockershim.service": { linkTo: "../dockershim.service" },
  });
  assert.equal(configuredRuntime(await factsOf(root, "1.24.9")).runtime, "unknown");
});

for (const [what, sockets, runtime] of [
  ["another file's name", [["cri-dockerd.service", "/run/1", ""]], "cri-dockerd"],
  ["no service", [["session-1.scope", "/run/1", ""]], "unknown"],
  ["another directory", [["session-1.scope", "/tmp/1", ""]], "cri-dockerd"],
  [
    "two files' names, of which the command lines tell one",
    [
      [
        "cri-dockerd.service",
        "/run/1",
        "/usr/bin/cri-dockerd\0--container-runtime-endpoint=unix:///run/dockershim.sock",
      ],
      ["session-1.scope", "/run/2", "node\0--container-runtime-endpoint=unix:///run/own.sock"],
    ],
    "cri-dockerd",
  ],
  [
    "two files' names",
    [
      ["cri-dockerd.service", "/run/1", ""],
      ["session-1.scope", "/run/2", ""],
    ],
    "unknown",
  ],
] as const)
  test(`a socket that was bound to ${what} is that of ${runtime}`, async (t) => {
    const tree: Record<string, NodeTree[string]> = {};
    let lines = "";
    for (const [index, [unit, path, command]] of sockets.entries()) {
      lines += unixLine(String(90 + index), path);
      tree[`/proc/${index + 7}/cgroup`] = `0::/system.slice/${unit}\n`;
      tree[`/proc/${index + 7}/cmdline`] = command;
      tree[`/proc/${index + 7}/fd/3`] = { linkTo: `socket:[${90 + index}]` };
    }
    const root = makeNode(t, {
      ...goldenNode("old-socket-name-1.24").tree,
      ...tree,
      "/proc/net/unix": lines,
      "/run/dockershim.sock": "",
    });
    assert.equal(configuredRuntime(await factsOf(root, "1.24.9")).runtime, runtime);
    const listener = what === "another directory" ? "unknown" : "program";
    assert.equal(await listenerOf(new NodeFiles(root), "/run/dockershim.sock"), listener);
  });

test("of two units of cri-dockerd at one socket that counts whose process listens", async (t) => {
  const unit =
    "[Service]\nExecStart=/usr/bin/cri-dockerd --container-runtime-endpoint=unix:///run/cri-dockerd.sock\n";
  const root = makeNode(t, {
    ...goldenNode("kubeadm-1.30").tree,
    "/etc/systemd/system/other.service": unit,
    "/proc/net/unix": unixLine("99", "/run/cri-dockerd.sock"),
    ...processOf("other.service", { "/proc/7/fd/3": { linkTo: "socket:[99]" } }),
  });
  assert.equal((await factsOf(root, "1.30.1")).services.criDocker?.unit.name, "other.service");
});
