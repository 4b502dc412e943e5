import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { encodeCheckpoint } from "../../../checkpoints/checkpoint.js";
import { type CheckReport, judge } from "../../../src/migrate/check-report.js";
import { gatherFacts, type GatherOptions } from "../../../src/migrate/gather.js";
import { renderPage } from "../../../src/migrate/render-page.js";
import type { Target } from "../../../src/migrate/target.js";
import { wayBack } from "../../../src/migrate/way-back.js";
import { toDockerLabels } from "../../../src/shim/domain/labels.js";
import type { NodeFacts } from "../../../src/shim/domain/node-facts.js";
import type { ListedContainer, ListedImage, Snapshot } from "../../../src/shim/domain/snapshot.js";
import { ShimError } from "../../../src/shim/lib/errors.js";
import { nodeFacts } from "../../fakes/node-facts.js";
import { idOf, snapshotOf, type SnapshotChanges } from "../../fakes/snapshots.js";
import { kubeadm123, kubeadm130, makeNode, type NodeTree, ours } from "./nodes.js";

type FakeEngine = NonNullable<GatherOptions["engine"]>;

/** Answers from memory; `requests` counts. */
function engineWith(
  containers: readonly Snapshot[],
  { images = [], facts = {} }: { images?: readonly ListedImage[]; facts?: Partial<NodeFacts> } = {},
): FakeEngine {
  const toListed = ({ id, name, labels, created, imageId, imageName, state }: Snapshot): ListedContainer => ({
    ...{ id, labels, created, imageId, imageName },
    names: [name],
    status: state.status,
  });
  return {
    connect: () => Promise.resolve(nodeFacts(facts)),
    listContainers: () => Promise.resolve(containers.map(toListed)),
    inspectContainer: (id) => Promise.resolve(containers.find((one) => one.id === id)),
    listImages: () => Promise.resolve(images),
  };
}

interface PodRule {
  readonly name: string;
  readonly id: string;
  readonly isOurs?: boolean;
  readonly sandbox?: SnapshotChanges;
  readonly container?: SnapshotChanges;
  readonly labels?: Record<string, string>;
  readonly dockerName?: string;
}

/** A sandbox and one container, with the labels that dockershim and cri-dockerd give, or this program. */
function pod({ name, id, isOurs = false, sandbox, container, labels = {}, dockerName }: PodRule): Snapshot[] {
  const kubelet = { "io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": "ns" };
  const sandboxId = idOf(id);
  const own = { "io.kubernetes.docker.type": "podsandbox", "io.kubernetes.container.name": "POD" };
  const inner = {
    "io.kubernetes.docker.type": "container",
    "io.kubernetes.container.name": "main",
    "io.kubernetes.sandbox.id": sandboxId,
    "io.kubernetes.container.logpath": `/var/log/pods/${name}/0.log`,
  };
  const made = (all: Record<string, string>): Record<string, string> =>
    isOurs ? { ...toDockerLabels(kubelet, {}, all) } : { ...kubelet, ...all };
  return [
    snapshotOf({
      id: sandboxId,
      name: dockerName ?? `k8s_POD_${name}_ns_uid-${name}_0`,
      labels: made(own),
      networkMode: "none",
      ...(isOurs ? { logDriver: "none" } : {}),
      ...sandbox,
    }),
    snapshotOf({
      id: idOf(`${id}c`),
      name: `k8s_main_${name}_ns_uid-${name}_0`,
      labels: { ...made(inner), ...labels },
      networkMode: `container:${sandboxId}`,
      ...container,
    }),
  ];
}

const golden = {
  dockershim: new TextDecoder().decode(
    encodeCheckpoint({
      ...{ version: "v1", name: "a", namespace: "ns" },
      data: { portMappings: [{ protocol: "tcp", containerPort: 80, hostPort: 8080 }] },
    }),
  ),
  // {} with the checksum of cri-dockerd.
  criDockerd: '{"version":"v1","name":"a","namespace":"ns","data":{},"checksum":2305795928}',
};

function cached(id: string): NodeTree {
  return { [`/var/lib/cni/cache/results/pods-${idOf(id)}-eth0`]: "{}" };
}

interface CheckRule {
  readonly tree?: NodeTree;
  readonly engine?: FakeEngine;
  readonly target?: Target;
  readonly version?: string;
}

async function check(t: Parameters<typeof makeNode>[0], rule: CheckRule): Promise<CheckReport> {
  const { tree = kubeadm130, engine = engineWith([]), target = "dockershim", version = "1.30.1" } = rule;
  const root = await makeNode(t, tree);
  const askProgram = (): Promise<undefined> => Promise.resolve(undefined);
  const options = { root, endpoint: "unix:///run/docker.sock", engine, kubeletVersion: version, askProgram };
  const facts = await gatherFacts(options, new AbortController().signal);
  return judge(facts, target, { program: "1.2.3", at: "2026-11-23T14:00:00Z" });
}

function idsOf({ findings }: CheckReport, level?: string): readonly string[] {
  return findings.filter((finding) => level === undefined || finding.level === level).map(({ id }) => id);
}

describe("the maker of a pod", () => {
  const checkpoint = (directory: string, id: string, text: string): NodeTree => ({
    [`/var/lib/${directory}/sandbox/${idOf(id)}`]: text,
  });
  const cases: readonly (readonly [string, PodRule, NodeTree, string])[] = [
    ["its label", { name: "a", id: "a1", isOurs: true }, {}, "this program"],
    [
      "dockershim's checksum",
      { name: "a", id: "a1" },
      checkpoint("dockershim", "a1", golden.dockershim),
      "dockershim",
    ],
    [
      "cri-dockerd's checksum",
      { name: "a", id: "a1" },
      checkpoint("dockershim", "a1", golden.criDockerd),
      "cri-dockerd",
    ],
    [
      "the place of a corrupt checkpoint",
      { name: "a", id: "a1" },
      checkpoint("cri-dockerd", "a1", "{"),
      "cri-dockerd",
    ],
    ["a privileged sandbox", { name: "a", id: "a1", sandbox: { privileged: true } }, {}, "cri-dockerd"],
    ["nothing", { name: "a", id: "a1" }, {}, "dockershim or cri-dockerd"],
    [
      "a label of the image that names another sandbox",
      {
        name: "a",
        id: "a1",
        sandbox: {
          labels: {
            ...pod({ name: "a", id: "a1" })[0]?.labels,
            "dockershim.label-keys": '{"sandbox":"x","keys":["io.kubernetes.docker.type"]}',
          },
        },
      },
      {},
      "dockershim or cri-dockerd",
    ],
  ];
  for (const [title, rule, tree, maker] of cases) {
    test(`by ${title}: ${maker}`, async (t) => {
      const { pods } = await check(t, { tree: { ...kubeadm130, ...tree }, engine: engineWith(pod(rule)) });
      assert.deepEqual(
        pods.map((one) => [one.name, one.maker]),
        [["a", maker]],
      );
      assert.notEqual(pods[0]?.evidence, "");
    });
  }
});

describe("migrate check", () => {
  test("a healthy node of cri-dockerd has exit code 0, and all pods are adopted as they are", async (t) => {
    const tree = {
      ...kubeadm130,
      ...cached("a1"),
      [`/var/lib/cri-dockerd/sandbox/${idOf("a1")}`]: golden.criDockerd,
      "/var/log/pods/web/0.log": { linkTo: "/var/lib/docker/x-json.log" },
    };
    const report = await check(t, { tree, engine: engineWith(pod({ name: "web", id: "a1" })) });
    assert.deepEqual(report.summary.counts, { ok: 1, note: 4, change: 0, restart: 0, blocked: 0, lost: 0 });
    assert.equal(report.summary.exitCode, 0);
    assert.deepEqual(
      report.pods.map(({ verdict, network, findings }) => [verdict, network, findings]),
      [["adopted as it is", "cni", ["pod-log-link"]]],
    );
  });

  test("containerd: pods are made again, local images are lost, users of the socket are blocked", async (t) => {
    const mounts = [
      {
        type: "bind",
        source: "/var/run/docker.sock",
        destination: "/s",
        readOnly: true,
        propagation: "",
        name: "",
      },
      {
        type: "bind",
        source: "/var/lib/docker/containers",
        destination: "/c",
        readOnly: true,
        propagation: "",
        name: "",
      },
    ];
    const containers = [
      ...pod({ name: "agent", id: "a1", container: { mounts, imageName: "fluent/fluent-bit:3" } }),
      snapshotOf({ id: idOf("b1"), name: "cache" }),
    ];
    const images = [
      { id: "sha256:1", repoTags: ["app:1"], repoDigests: [], size: 1, hasRegistry: false },
      { id: "sha256:2", repoTags: ["web:1"], repoDigests: ["web@x"], size: 1, hasRegistry: true },
    ];
    const tree = { ...kubeadm130, "/etc/docker/daemon.json": '{"registry-mirrors":["https://mirror"]}' };
    const engine = engineWith(containers, { images });
    const report = await check(t, { tree, engine, target: "containerd" });
    assert.deepEqual(idsOf(report, "lost"), ["image-local"]);
    assert.deepEqual(idsOf(report, "blocked"), ["docker-socket", "container-outside"]);
    assert.deepEqual(idsOf(report, "restart"), ["pod-made-again"]);
    assert.deepEqual([...idsOf(report, "change")].sort(), [
      "daemon-registry-mirrors",
      "docker-files",
      "engine-builds",
    ]);
    assert.equal(report.summary.exitCode, 2);
    const here = await check(t, { tree, engine });
    assert.deepEqual([...idsOf(here, "change")].sort(), ["docker-files", "pod-without-cache"]);
  });

  test("the way back says per pod what cannot go back", async (t) => {
    const sandboxes = [
      ...pod({ name: "plain", id: "a1", isOurs: true }),
      ...pod({ name: "ports", id: "a2", isOurs: true }),
      ...pod({ name: "volume", id: "a3", isOurs: true, labels: { "dockershim.image-mounts": "[]" } }),
      ...pod({ name: "class", id: "a4", isOurs: true, sandbox: { runtime: "runsc" } }),
      ...pod({ name: "x", id: "a5", isOurs: true, dockerName: "k8s_POD_a.-b_ns_u_0_escaped" }),
      ...pod({ name: "limits", id: "a6", isOurs: true }),
    ];
    const tree: NodeTree = {
      ...ours,
      ...["a1", "a2", "a3", "a4", "a5", "a6"].map(cached).reduce((all, one) => ({ ...all, ...one }), {}),
      [`/var/lib/dockershim/sandbox/${idOf("a2")}`]: golden.dockershim,
      [`/var/lib/dockershim/containers/${idOf("a6c")}.json`]: "{}",
      "/var/log/pods/plain/0.log": "2026-11-21T20:00:00.123456789Z stdout F x\n",
    };
    const report = await check(t, {
      tree,
      engine: engineWith(sandboxes, { facts: { engineApiVersion: "1.51" } }),
      target: "cri-dockerd",
    });
    const byPod = Object.fromEntries(
      report.pods.map(({ name, level, findings }) => [
        name,
        [level, findings.filter((id) => !/label-keys|way-back-checkpoint/.test(id))],
      ]),
    );
    assert.deepEqual(byPod, {
      plain: ["change", ["way-back-log"]],
      ports: ["change", ["way-back-host-ports"]],
      volume: ["lost", ["way-back-image-volume"]],
      class: ["lost", ["way-back-runtime-handler"]],
      a_b: ["change", ["way-back-escaped-name"]],
      limits: ["change", ["way-back-limits"]],
    });
    const inTree = await check(t, {
      tree,
      engine: engineWith(sandboxes),
      target: "dockershim-in-tree",
      version: "1.23.1",
    });
    assert.deepEqual(inTree.pods.find(({ name }) => name === "ports")?.findings, ["way-back-label-keys"]);
  });

  test("the way back counts logs that were converted, whoever made the container", async (t) => {
    const tree = { ...ours, ...cached("a1"), "/var/log/pods/web/0.log": "x\n" };
    const report = await check(t, {
      tree,
      engine: engineWith(pod({ name: "web", id: "a1" })),
      target: "cri-dockerd",
    });
    assert.ok(idsOf(report, "change").includes("way-back-log"));
  });

  const blocked: readonly (readonly [string, CheckRule, string, string])[] = [
    [
      "another cgroup driver",
      { engine: engineWith([], { facts: { cgroupDriver: "systemd" } }) },
      "blocked",
      "cgroup-driver",
    ],
    [
      "the same with a kubelet that asks",
      { engine: engineWith([], { facts: { cgroupDriver: "systemd" } }), version: "1.31.0" },
      "note",
      "cgroup-driver",
    ],
    ["cgroup version 1 with a kubelet that refuses it", { version: "1.35.0" }, "blocked", "cgroup-version"],
    ["cri-dockerd on API 1.41", { target: "cri-dockerd" }, "blocked", "engine-api"],
    ["in tree with a kubelet that has none", { target: "dockershim-in-tree" }, "blocked", "kubelet-version"],
    [
      "a broken config.yaml",
      { tree: { ...kubeadm130, "/var/lib/kubelet/config.yaml": "a: [1\nb: 2\n" } },
      "blocked",
      "kubelet-config-broken",
    ],
    [
      "a broken daemon.json",
      { tree: { ...kubeadm130, "/etc/docker/daemon.json": "{" } },
      "blocked",
      "daemon-config-broken",
    ],
    [
      "a line that does not parse",
      { tree: { ...kubeadm130, "/etc/systemd/system/cri-docker.service.d/a.conf": "[Service]\nrubbish\n" } },
      "change",
      "file-not-understood",
    ],
    ["no kubelet", { tree: {} }, "change", "kubelet-unit-missing"],
    ["no version", { version: "" }, "change", "kubelet-version"],
    [
      "both services",
      {
        tree: { ...ours, "/etc/systemd/system/multi-user.target.wants/cri-docker.service": { linkTo: "/x" } },
      },
      "change",
      "half-migrated-services",
    ],
    [
      "a kubelet that was not restarted",
      {
        tree: {
          ...ours,
          "/proc/77/cmdline": "/usr/bin/kubelet\0--container-runtime-endpoint=unix:///run/cri-dockerd.sock\0",
        },
      },
      "change",
      "half-migrated-kubelet",
    ],
    [
      "a log driver without files, on the way back",
      {
        tree: ours,
        target: "dockershim-in-tree",
        version: "1.23.1",
        engine: engineWith([], { facts: { loggingDriver: "journald" } }),
      },
      "change",
      "log-driver",
    ],
    [
      "a corrupt checkpoint without a pod",
      { tree: { ...kubeadm130, "/var/lib/dockershim/sandbox/abc": "{" } },
      "note",
      "checkpoint-corrupt-alone",
    ],
    [
      "a broken CNI configuration",
      { tree: { ...kubeadm130, "/etc/cni/net.d/05-x.conflist": "{" } },
      "change",
      "cni-config-broken",
    ],
    [
      "a unit that reads Docker's files",
      {
        tree: {
          ...kubeadm130,
          "/etc/systemd/system/tail.service":
            "[Service]\nExecStart=/usr/bin/tail -F /var/lib/docker/containers/x\n",
        },
      },
      "change",
      "docker-files",
    ],
    [
      "a static pod that mounts Docker's socket",
      {
        tree: {
          ...kubeadm130,
          "/etc/kubernetes/manifests/a.yaml":
            "metadata: {name: a}\nspec:\n  volumes:\n  - hostPath: {path: /run/docker.sock}\n",
        },
      },
      "note",
      "docker-socket",
    ],
  ];
  for (const [title, rule, level, id] of blocked) {
    test(`${title}: ${level} ${id}, with a next step`, async (t) => {
      const { findings } = await check(t, rule);
      const found = findings.filter((finding) => finding.id === id);
      assert.deepEqual(
        found.map((finding) => finding.level),
        [level],
      );
      assert.ok(level === "note" || found[0]?.next !== "");
      assert.notEqual(found[0]?.source, "");
    });
  }

  test("a corrupt checkpoint of a pod is a change of that pod, and names the file", async (t) => {
    const path = `/var/lib/dockershim/sandbox/${idOf("a1")}`;
    const tree = { ...kubeadm123, ...cached("a1"), [path]: golden.dockershim.replace("8080", "8081") };
    const report = await check(t, {
      tree,
      engine: engineWith(pod({ name: "web", id: "a1" })),
      version: "1.23.17",
    });
    const found = report.findings.find(({ id }) => id === "checkpoint-corrupt");
    assert.deepEqual([found?.level, found?.subject, found?.source], ["change", "pod ns/web", path]);
  });

  test("an engine that does not answer blocks, names the socket, and the files are judged", async (t) => {
    const error = new ShimError("unavailable", "cannot connect");
    const engine = { ...engineWith([]), connect: () => Promise.reject(error) };
    const report = await check(t, { engine });
    assert.match(
      report.findings[0]?.text ?? "",
      /unix:\/\/\/run\/docker\.sock does not answer: cannot connect/,
    );
    assert.equal(report.kubelet.runtime, "cri-dockerd");
    assert.equal(report.summary.exitCode, 2);
  });

  test("a kubelet's socket that is no socket is found", async (t) => {
    const tree = {
      ...ours,
      "/var/lib/kubelet/kubeadm-flags.env":
        'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///run/dockershim.sock"\n',
      "/run/dockershim.sock": "",
    };
    assert.ok(idsOf(await check(t, { tree }), "change").includes("socket-not-served"));
    assert.ok(!idsOf(await check(t, { tree: ours })).includes("socket-not-served"));
  });
});

describe("renderPage()", () => {
  test("has at most 100 columns, escapes names of tenants, and has colour only when asked", async (t) => {
    const names = ["a\u001b[31mred", "b".repeat(300), "c\u202etxt"];
    const containers = names.flatMap((name, index) => pod({ name, id: `a${index}` }));
    const report = await check(t, { engine: engineWith(containers) });
    const page = renderPage(report);
    for (const line of page.split("\n")) assert.ok(line.length <= 100, line);
    for (const character of ["\u001b", "\u202e"]) assert.ok(!page.includes(character));
    assert.match(page, /\\u001b\[31mred/);
    assert.ok(renderPage(report, { colour: true }).includes("\u001b[1m"));
  });

  test("says the same of several pods once", async (t) => {
    const containers = Array.from({ length: 12 }, (_, index) =>
      pod({ name: `p${index}`, id: `b${index + 10}` }),
    ).flat();
    const page = renderPage(await check(t, { engine: engineWith(containers), target: "containerd" }));
    assert.equal(page.match(/\[pod-made-again\]/g)?.length, 1);
    assert.match(page, /and 4 more/);
  });
});

test("each row of the way back has an id of its own and a reason", () => {
  assert.equal(new Set(wayBack.map(({ id }) => id)).size, wayBack.length);
  for (const { reason, text } of wayBack) assert.ok(reason !== "" && text !== "");
});
