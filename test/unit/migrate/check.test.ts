import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { renderPage } from "../../../src/migrate/judge/render-page.js";
import { ociRuntimeName } from "../../../src/domain/oci-changes.js";
import { idOf, snapshotOf } from "../../fakes/snapshots.js";
import { type CheckRule, cached, check, engineWith, golden, idsOf, pod, ownWeb, web } from "./check-bed.js";
import { type NodeTree, kubeadm123, kubeadm130, kubeadm134, kubenet123, noop123, ours } from "./nodes.js";

function limitsRecord(id: string, cgroup: object): NodeTree {
  const record = { version: 1, containerId: idOf(id), cgroup };
  return { [`/var/lib/dockershim/containers/${idOf(id)}.json`]: JSON.stringify(record) };
}

describe("migrate check", () => {
  test("a healthy node of cri-dockerd has exit code 0, and all pods are adopted as they are", async (t) => {
    const tree = {
      ...kubeadm130,
      ...cached("a1"),
      [`/var/lib/cri-dockerd/sandbox/${idOf("a1")}`]: golden.criDockerd,
      "/var/log/pods/web/0.log": { linkTo: "/var/lib/docker/x-json.log" },
    };
    const report = await check(t, { tree, engine: engineWith(web) });
    assert.deepEqual(report.summary.counts, { ok: 1, note: 5, change: 0, restart: 0, blocked: 0, lost: 0 });
    assert.equal(report.summary.exitCode, 0);
    const rows = report.pods.map(({ verdict, network, findings }) => [verdict, network, findings]);
    assert.deepEqual(rows, [["adopted as it is", "cni", ["pod-log-link"]]]);
  });

  for (const [flags, lacks] of [
    ["", true],
    [" --containerd=/run/containerd/containerd.sock", true],
    [" --containerd=/run/dockershim/cadvisor.sock", false],
  ] as const) {
    test(`a kubelet with "${flags}" ${lacks ? "lacks" : "has"} the names of container metrics`, async (t) => {
      const words = `--container-runtime-endpoint=unix:///var/run/dockershim.sock${flags}`;
      const tree = { ...ours, "/var/lib/kubelet/kubeadm-flags.env": `KUBELET_KUBEADM_ARGS="${words}"\n` };
      const report = await check(t, { tree, engine: engineWith([]) });
      assert.equal(idsOf(report, "note").includes("container-metrics"), lacks);
    });
  }

  for (const [flags, level, text] of [
    ["", "note", /without the gate PodAndContainerStatsFromCRI$/],
    [" --containerd=/run/dockershim/cadvisor.sock", "change", /does not start with it$/],
  ] as const) {
    test(`a kubelet of 1.37 with "${flags}" is told of the gate, not of a flag that it refuses`, async (t) => {
      const words = `--container-runtime-endpoint=unix:///var/run/dockershim.sock${flags}`;
      const tree = { ...ours, "/var/lib/kubelet/kubeadm-flags.env": `KUBELET_KUBEADM_ARGS="${words}"\n` };
      const { findings } = await check(t, { tree, engine: engineWith([]), version: "1.37.0" });
      const found = findings.filter(({ id }) => id === "container-metrics");
      assert.deepEqual(
        found.map((each) => each.level),
        [level],
      );
      assert.match(found[0]?.text ?? "", text);
    });
  }

  test("containerd: pods are made again, local images are lost, users of the socket are blocked", async (t) => {
    const mounts = ["/var/run/docker.sock", "/var/lib/docker/containers"].map((source) => ({
      ...{ type: "bind", source, destination: source, readOnly: true, propagation: "", name: "" },
    }));
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
    for (const [level, ids] of [
      ["lost", ["image-local"]],
      ["blocked", ["docker-socket", "container-outside"]],
      ["restart", ["pod-made-again"]],
      ["change", ["docker-files", "engine-builds", "daemon-registry-mirrors"]],
    ] as const)
      assert.deepEqual(idsOf(report, level).toSorted(), ids.toSorted());
    assert.equal(report.summary.exitCode, 2);
    const here = await check(t, { tree, engine });
    assert.deepEqual([...idsOf(here, "change")].sort(), ["docker-files", "pod-without-cache"]);
  });

  test("an image store that cannot tell local images is a note, not silence", async (t) => {
    const report = async (engineVersion: string): Promise<readonly string[]> => {
      const engine = engineWith([], { facts: { imageStore: "containerd", engineVersion } });
      return idsOf(await check(t, { engine, target: "containerd" }), "note");
    };
    assert.ok((await report("28.5.2")).includes("image-local"));
    assert.ok(!(await report("29.7.2")).includes("image-local"));
  });

  test("the way back says per pod what cannot go back", async (t) => {
    const oci = { runtime: ociRuntimeName };
    const sandboxes = [
      ...pod({ name: "plain", id: "a1", isOurs: true }),
      ...pod({ name: "ports", id: "a2", isOurs: true }),
      ...pod({ name: "volume", id: "a3", isOurs: true, labels: { "dockershim.image-mounts": "[]" } }),
      ...pod({ name: "class", id: "a4", isOurs: true, sandbox: { runtime: "runsc" } }),
      ...pod({ name: "x", id: "a5", isOurs: true, dockerName: "k8s_POD_a.-b_ns_u_0_escaped" }),
      ...pod({ name: "limits", id: "a6", isOurs: true }),
      ...pod({ name: "users", id: "a7", isOurs: true, sandbox: oci, container: oci }),
      ...pod({ name: "options", id: "a8", isOurs: true, container: oci }),
    ];
    const tree: NodeTree = {
      ...ours,
      ...["a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8"]
        .map(cached)
        .reduce((all, one) => ({ ...all, ...one }), {}),
      [`/var/lib/dockershim/sandbox/${idOf("a2")}`]: golden.dockershim,
      ...limitsRecord("a6c", { unified: { "memory.high": "1" }, hugepages: [] }),
      ...limitsRecord("a1c", {
        unified: { "memory.oom.group": "1", "memory.swap.max": "0" },
        hugepages: [{ pageSize: "2MB", limitBytes: "0" }],
      }),
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
      class: ["note", []],
      a_b: ["change", ["way-back-escaped-name"]],
      limits: ["change", ["way-back-limits"]],
      users: ["lost", ["way-back-user-namespace", "way-back-oci-runtime"]],
      options: ["lost", ["way-back-oci-runtime"]],
    });
    const inTree = await check(t, {
      tree,
      engine: engineWith(sandboxes),
      target: "dockershim-in-tree",
      version: "1.23.1",
    });
    const ofPod = (pod: string): readonly string[] | undefined =>
      inTree.pods.find(({ name }) => name === pod)?.findings;
    assert.deepEqual(ofPod("ports"), ["way-back-label-keys"]);
    assert.ok(ofPod("class")?.includes("way-back-runtime-handler"));
    assert.deepEqual(
      ofPod("users")?.filter((id) => /user-namespace|runtime/.test(id)),
      ["way-back-user-namespace", "way-back-oci-runtime"],
    );
  });

  test("the way back counts logs that were converted, of any maker", async (t) => {
    const tree = { ...ours, ...cached("a1"), "/var/log/pods/web/0.log": "x\n" };
    const report = await check(t, { tree, engine: engineWith(web), target: "cri-dockerd" });
    assert.ok(idsOf(report, "change").includes("way-back-log"));
  });

  const systemd = { engine: engineWith([], { facts: { cgroupDriver: "systemd" } }) };
  const journald = { engine: engineWith([], { facts: { loggingDriver: "journald" } }) };
  const inTree = { target: "dockershim-in-tree", version: "1.23.1" } as const;
  const criDockerd = "/etc/systemd/system/cri-docker.service";
  const oldKubelet = "/usr/bin/kubelet\0--container-runtime-endpoint=unix:///run/cri-dockerd.sock\0";
  const tail = "[Service]\nExecStart=/usr/bin/tail -F /var/lib/docker/containers/x\n";
  const mount = "metadata: {name: a}\nspec:\n  volumes:\n  - hostPath: {path: /run/docker.sock}\n";
  for (const [what, level, id, files, rule = {}] of [
    ["another cgroup driver", "blocked", "cgroup-driver", {}, systemd],
    ["the same with a kubelet that asks", "note", "cgroup-driver", {}, { ...systemd, version: "1.31.0" }],
    ["cgroup version 1 that the kubelet refuses", "blocked", "cgroup-version", {}, { version: "1.35.0" }],
    ["cri-dockerd on API 1.41", "blocked", "engine-api", {}, { target: "cri-dockerd" }],
    ["in tree with a later kubelet", "blocked", "kubelet-version", {}, { target: "dockershim-in-tree" }],
    [
      "a broken config.yaml",
      "blocked",
      "kubelet-config-broken",
      { "/var/lib/kubelet/config.yaml": "a: [1\n" },
    ],
    ["a broken daemon.json", "blocked", "daemon-config-broken", { "/etc/docker/daemon.json": "{" }],
    [
      "a line that does not parse",
      "change",
      "file-not-understood",
      { [`${criDockerd}.d/a.conf`]: "[Service]\nrubbish\n" },
    ],
    ["no kubelet", "change", "kubelet-unit-missing", {}, { tree: {} }],
    ["no version", "change", "kubelet-version", {}, { version: "" }],
    ["both services", "change", "half-migrated-services", {}, { tree: ours }],
    [
      "a kubelet that was not restarted",
      "change",
      "half-migrated-kubelet",
      { "/proc/77/cmdline": oldKubelet },
      { tree: ours },
    ],
    ["a log driver without files, back", "change", "log-driver", {}, { tree: ours, ...inTree, ...journald }],
    [
      "a corrupt checkpoint alone",
      "note",
      "checkpoint-corrupt-alone",
      { "/var/lib/dockershim/sandbox/a": "{" },
    ],
    ["a broken CNI configuration", "change", "cni-config-broken", { "/etc/cni/net.d/05-x.conflist": "{" }],
    ["a unit with Docker's files", "change", "docker-files", { "/etc/systemd/system/tail.service": tail }],
    ["a static pod with the socket", "note", "docker-socket", { "/etc/kubernetes/manifests/a.yaml": mount }],
  ] as readonly (readonly [string, string, string, NodeTree, CheckRule?])[])
    test(`${what}: ${level} ${id}, with a next step`, async (t) => {
      const { tree = kubeadm130 } = rule;
      const { findings } = await check(t, { ...rule, tree: { ...tree, ...files } });
      const found = findings.filter((finding) => finding.id === id);
      const levels = found.map((finding) => finding.level);
      assert.deepEqual(levels, [level]);
      assert.ok(level === "note" || found[0]?.next !== "");
      assert.notEqual(found[0]?.source, "");
    });

  test("pods of this program, while the kubelet's files name another runtime, are half migrated", async (t) => {
    const engine = engineWith(ownWeb);
    assert.ok(idsOf(await check(t, { engine }), "change").includes("half-migrated-pods"));
    assert.ok(!idsOf(await check(t, { engine, tree: ours })).includes("half-migrated-pods"));
  });

  test("a corrupt checkpoint of a pod is a change of that pod, and names the file", async (t) => {
    const path = `/var/lib/dockershim/sandbox/${idOf("a1")}`;
    const tree = { ...kubeadm123, ...cached("a1"), [path]: golden.dockershim.replace("8080", "8081") };
    const report = await check(t, { tree, engine: engineWith(web), version: "1.23.17" });
    const found = report.findings.find(({ id }) => id === "checkpoint-corrupt");
    assert.deepEqual([found?.level, found?.subject, found?.source], ["change", "pod ns/web", path]);
  });
});

function textOf({ findings }: Awaited<ReturnType<typeof check>>, id: string): string {
  return findings.find((finding) => finding.id === id)?.text ?? "";
}

describe("migrate check of nodes with other networks", () => {
  test("pods of kubenet are adopted, and are blocked from a runtime without it", async (t) => {
    const tree = {
      ...kubenet123,
      [`/var/lib/cni/cache/results/kubenet-${idOf("a1")}-eth0`]: "{}",
      [`/var/lib/dockershim/sandbox/${idOf("a1")}`]: golden.dockershim,
    };
    const engine = engineWith(web);
    const report = await check(t, { tree, engine, version: "1.23.17" });
    const rows = report.pods.map(({ maker, network, verdict }) => [maker, network, verdict]);
    assert.deepEqual(rows, [["dockershim", "kubenet", "adopted as it is"]]);
    assert.equal(report.summary.exitCode, 0, JSON.stringify(report.findings));
    assert.match(textOf(report, "network-plugin"), /pods have: kubenet; no network in/);
    const away = await check(t, { tree, engine, version: "1.23.17", target: "containerd" });
    assert.ok(idsOf(away, "blocked").includes("kubenet-gone"));
    assert.ok(!idsOf(away).includes("cni-config-missing"));
  });

  test("host ports that this program opened with kubenet stay on the way back", async (t) => {
    const tree = {
      ...kubenet123,
      [`/var/lib/dockershim/sandbox/${idOf("a1")}`]: golden.dockershim,
      [`/var/lib/dockershim/pods/${idOf("a1")}.json`]: '{"network":{"plugin":"kubenet"}}',
    };
    const engine = engineWith(ownWeb);
    const rule = { tree, engine, version: "1.23.17", target: "dockershim-in-tree" } as const;
    const ids = idsOf(await check(t, rule), "change");
    assert.ok(ids.includes("way-back-kubenet-ports"));
    assert.ok(!ids.includes("way-back-host-ports"));
  });

  test("pods on Docker's own bridge need neither a cache nor a CNI configuration", async (t) => {
    for (const networkMode of ["default", "bridge"]) {
      const engine = engineWith(pod({ name: "web", id: "a1", sandbox: { networkMode } }));
      const report = await check(t, { tree: noop123, engine, version: "1.23.17" });
      const rows = report.pods.map(({ network, verdict, findings }) => [network, verdict, findings]);
      assert.deepEqual(rows, [["docker", "adopted as it is", ["pod-without-checkpoint"]]]);
      assert.equal(report.summary.exitCode, 0, JSON.stringify(report.findings));
      assert.equal(report.kubelet.runtime, "dockershim-in-tree");
    }
  });

  test("a record with a plugin that is no text is that of an unknown plugin, also on the page", async (t) => {
    for (const plugin of [7, {}, "cni\u001b[2J"]) {
      const record = JSON.stringify({ network: { plugin } });
      const tree = { ...ours, [`/var/lib/dockershim/pods/${idOf("a1")}.json`]: record };
      const report = await check(t, { tree, engine: engineWith(ownWeb) });
      const page = renderPage(report);
      assert.match(page, /^ns\/web +this program +\S+ +running +\S/m);
      assert.ok(!page.includes("\u001b"));
    }
  });

  test("an endpoint that config.yaml names by an alias is the endpoint", async (t) => {
    const config = "x: &socket unix:///var/run/cri-dockerd.sock\ncontainerRuntimeEndpoint: *socket\n";
    const tree = { ...kubeadm134, "/var/lib/kubelet/config.yaml": config };
    const { kubelet } = await check(t, { tree, version: "1.34.0" });
    const found = [kubelet.runtime, kubelet.endpoint];
    assert.deepEqual(found, ["cri-dockerd", "unix:///var/run/cri-dockerd.sock"]);
  });
});
