import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { makePlan, previousTarget, reversePlan } from "../../../src/migrate/plan/make-plan.js";
import { renderPlan } from "../../../src/migrate/plan/render-plan.js";
import { defaultProgram, shimUnit } from "../../../src/migrate/plan/shim-unit.js";
import { unifiedDiff } from "../../../src/migrate/plan/unified-diff.js";
import { configuredRuntime } from "../../../src/migrate/kubelet/target.js";
import { factsOf, kubeadmFlags, planOf, program, snapshot, type Target } from "./plan-bed.js";
import { kubeadm123, kubeadm130, kubeadm134, makeNode, type NodeTree, ours, plainUnits } from "./nodes.js";

function hasPatch(): boolean {
  try {
    execFileSync("patch", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

test("shimUnit() is the example's unit", async () => {
  const example = await readFile(new URL("../../../examples/dockershim.service", import.meta.url), "utf8");
  assert.equal(shimUnit(`${defaultProgram} --network-plugin=cni`), example);
});

describe("makePlan()", () => {
  const cases: readonly (readonly [string, NodeTree, string, Target, Record<string, string | undefined>])[] =
    [
      [
        "kubeadm 1.23: the kubelet keeps its network flags, for the way back",
        kubeadm123,
        "1.23.17",
        "dockershim",
        {
          [kubeadmFlags]:
            'KUBELET_KUBEADM_ARGS="--network-plugin=cni --pod-infra-container-image=k8s.gcr.io/pause:3.6 --container-runtime=remote --container-runtime-endpoint=unix:///var/run/dockershim.sock"\n',
          "/etc/systemd/system/dockershim.service": shimUnit(
            `${program} --network-plugin=cni --pod-infra-container-image=k8s.gcr.io/pause:3.6`,
          ),
        },
      ],
      [
        "kubeadm 1.24: flags that this kubelet no longer knows go",
        kubeadm123,
        "1.24.0",
        "dockershim",
        {
          [kubeadmFlags]:
            'KUBELET_KUBEADM_ARGS="--pod-infra-container-image=k8s.gcr.io/pause:3.6 --container-runtime-endpoint=unix:///var/run/dockershim.sock --containerd=/run/dockershim/cadvisor.sock"\n',
        },
      ],
      [
        "kubeadm 1.30: the flag is changed where it stands",
        kubeadm130,
        "1.30.1",
        "dockershim",
        {
          [kubeadmFlags]:
            'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///var/run/dockershim.sock --pod-infra-container-image=registry.k8s.io/pause:3.9 --containerd=/run/dockershim/cadvisor.sock"\n',
        },
      ],
      [
        "kubeadm 1.34: both configuration files, with their comments and blanks",
        kubeadm134,
        "1.34.0",
        "dockershim",
        {
          "/var/lib/kubelet/config.yaml": `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration   # by kubeadm
cgroupDriver: cgroupfs
containerRuntimeEndpoint: unix:///var/run/dockershim.sock # cri-dockerd
shutdownGracePeriod:   0s
`,
          "/var/lib/kubelet/instance-config.yaml":
            "containerRuntimeEndpoint: unix:///var/run/dockershim.sock\n",
          [kubeadmFlags]:
            'KUBELET_KUBEADM_ARGS="--pod-infra-container-image=registry.k8s.io/pause:3.10 --containerd=/run/dockershim/cadvisor.sock"\n',
        },
      ],
      [
        "a unit of a package gets a drop-in, and is not edited",
        plainUnits,
        "1.22.3",
        "dockershim",
        {
          "/etc/systemd/system/kubelet.service.d/90-dockershim-migrate.conf": `# Made by dockershim migrate plan.
[Service]
# from /usr/lib/systemd/system/kubelet.service:2
ExecStart=
ExecStart=/usr/bin/kubelet --kubeconfig=/etc/kubernetes/kubelet.conf --container-runtime=remote --network-plugin cni --cgroup-driver=cgroupfs --container-runtime-endpoint=unix:///var/run/dockershim.sock
`,
          "/usr/lib/systemd/system/kubelet.service": undefined,
        },
      ],
      [
        "back to cri-dockerd",
        ours,
        "1.30.0",
        "cri-dockerd",
        {
          [kubeadmFlags]:
            'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///run/cri-dockerd.sock --pod-infra-container-image=registry.k8s.io/pause:3.9"\n',
        },
      ],
    ];
  for (const [title, tree, version, target, expected] of cases) {
    test(title, async (t) => {
      const { edits, notUnderstood } = await planOf(await makeNode(t, tree), version, target);
      assert.deepEqual(notUnderstood, []);
      for (const [path, text] of Object.entries(expected))
        assert.equal(edits.find((edit) => edit.path === path)?.after, text, path);
    });
  }

  test("names commands in order: services, then the annotation of kubeadm's node", async (t) => {
    const { commands } = await planOf(await makeNode(t, kubeadm130), "1.30.1");
    assert.deepEqual(commands, [
      "systemctl stop kubelet.service",
      "apply this diff: patch -p1 -d /",
      "systemctl disable --now cri-docker.service cri-docker.socket",
      "systemctl daemon-reload",
      "systemctl enable --now dockershim.service",
      "systemctl start kubelet.service",
      "kubectl annotate node node-1 kubeadm.alpha.kubernetes.io/cri-socket=unix:///var/run/dockershim.sock --overwrite",
      "dockershim migrate check --to dockershim",
    ]);
  });

  test("a node without a network plugin gets no-op, not what auto would choose", async (t) => {
    const tree = { ...kubeadm123, [kubeadmFlags]: 'KUBELET_KUBEADM_ARGS=""\n' };
    const { edits } = await planOf(await makeNode(t, tree), "1.23.0");
    assert.match(
      edits.find(({ path }) => path.endsWith("dockershim.service"))?.after ?? "",
      /--network-plugin=no-op/,
    );
  });

  test("back to the dockershim inside the kubelet brings its network flags back", async (t) => {
    const flags = "--container-runtime=remote --container-runtime-endpoint=unix:///var/run/dockershim.sock";
    const tree = { ...ours, [kubeadmFlags]: `KUBELET_KUBEADM_ARGS="${flags}"\n` };
    const { edits } = await planOf(await makeNode(t, tree), "1.23.0", "dockershim-in-tree");
    assert.deepEqual(
      edits.map(({ path, after }) => [path, after]),
      [[kubeadmFlags, 'KUBELET_KUBEADM_ARGS="--network-plugin=cni"\n']],
    );
  });

  test("the path of the program is one word of ExecStart, whatever is in it", async (t) => {
    const root = await makeNode(t, kubeadm130);
    const path = "/opt/my shim/100%/dockershim";
    const { edits } = await makePlan(await factsOf(root, "1.30.1"), { target: "dockershim", program: path });
    const unit = edits.find((edit) => edit.path.endsWith("dockershim.service"))?.after ?? "";
    assert.match(unit, /^ExecStart="\/opt\/my shim\/100%%\/dockershim" --network-plugin=cni /m);
  });

  test("a flag is added behind the last line of a command with a comment between its lines", async (t) => {
    const unit =
      "[Service]\nExecStart=/usr/bin/kubelet --v=2 \\\n  # no network\n  --cgroup-driver=cgroupfs\n";
    const tree = { ...plainUnits, "/etc/systemd/system/kubelet.service": unit };
    const { edits } = await planOf(await makeNode(t, tree), "1.22.0");
    const after = edits.find(({ path }) => path.endsWith("/kubelet.service"))?.after ?? "";
    assert.match(
      after,
      /\n {2}# no network\n {2}--cgroup-driver=cgroupfs --container-runtime=remote --container-/,
    );
  });

  const withNames = (words: string, flags: string): NodeTree => ({
    ...ours,
    "/etc/systemd/system/dockershim.service": `[Service]\nExecStart=/opt/dockershim/bin/dockershim ${words}\n`,
    [kubeadmFlags]: `KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///var/run/dockershim.sock ${flags}"\n`,
  });
  for (const { words, flags } of [
    { words: "", flags: "--containerd=/run/dockershim/cadvisor.sock" },
    { words: "--cadvisor-socket=/run/x.sock", flags: "--containerd /run/x.sock" },
    { words: "--cadvisor-socket=fd://", flags: "--containerd=/var/run/dockershim/cadvisor.sock" },
    { words: "--cadvisor-socket=", flags: "--v=2" },
  ]) {
    test(`a node that is there has neither edits nor commands, with ${flags}`, async (t) => {
      const { edits, commands } = await planOf(await makeNode(t, withNames(words, flags)), "1.30.0");
      assert.deepEqual([edits, commands], [[], []]);
    });
  }

  test("a node that is there and lacks the flag for cAdvisor gets it, and back", async (t) => {
    const root = await makeNode(
      t,
      withNames("--cadvisor-socket=/run/x.sock", "--containerd=/run/other.sock"),
    );
    const plan = await planOf(root, "1.30.0");
    const text = (flag: string): string =>
      `KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///var/run/dockershim.sock --containerd=${flag}"\n`;
    assert.deepEqual(
      plan.edits.map(({ path, before, after }) => [path, before, after]),
      [[kubeadmFlags, text("/run/other.sock"), text("/run/x.sock")]],
    );
    assert.ok(!plan.commands.some((command) => command.includes("disable")), plan.commands.join("\n"));
    const [edit] = reversePlan(plan, await factsOf(root, "1.30.0")).edits;
    assert.deepEqual([edit?.before, edit?.after], [text("/run/x.sock"), text("/run/other.sock")]);
  });

  test("back to cri-dockerd the flag for cAdvisor goes, and that of another program stays", async (t) => {
    for (const { flags, left } of [
      { flags: "--containerd=/run/dockershim/cadvisor.sock", left: "" },
      { flags: "--containerd=/run/other.sock", left: " --containerd=/run/other.sock" },
    ]) {
      const { edits } = await planOf(await makeNode(t, withNames("", flags)), "1.30.0", "cri-dockerd");
      assert.deepEqual(
        edits.map(({ after }) => after),
        [`KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///run/cri-dockerd.sock${left}"\n`],
      );
    }
  });

  test("a flag that is not understood is left alone and named", async (t) => {
    const tree = {
      ...kubeadm130,
      [kubeadmFlags]:
        'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///run/cri-dockerd.sock --v=2 --container-runtime-endpoint=unix:///run/cri-dockerd.sock"\n',
    };
    const root = await makeNode(t, tree);
    const { edits, notUnderstood } = await planOf(root, "1.30.0");
    assert.deepEqual(
      notUnderstood.map(({ place }) => place),
      [`${kubeadmFlags}:1`],
    );
    assert.ok(!edits.some(({ path }) => path === kubeadmFlags));
  });

  test("a later drop-in that would win is an error, and no plan", async (t) => {
    const tree = {
      ...plainUnits,
      "/etc/systemd/system/kubelet.service.d/99-late.conf":
        "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet --container-runtime=docker $LATE\nEnvironment=LATE=--v=2\n",
      "/usr/lib/systemd/system/kubelet.service.d/99-later.conf":
        "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet --container-runtime=docker\n",
    };
    await assert.rejects(planOf(await makeNode(t, tree), "1.22.0"), /edit the kubelet's files by hand/);
  });

  test("refusals name what is missing", async (t) => {
    const { "/etc/systemd/system/cri-docker.service": _service, ...rest } = kubeadm130;
    const broken = { ...kubeadm130, "/var/lib/kubelet/config.yaml": "a: [1\nb: 2\n" };
    const cases: readonly (readonly [NodeTree, string, Target, RegExp])[] = [
      [{}, "1.30", "dockershim", /no kubelet.service/],
      [kubeadm130, "", "dockershim", /give --kubelet-version/],
      [kubeadm130, "1.30", "dockershim-in-tree", /1\.30 has no dockershim inside/],
      [rest, "1.30", "cri-dockerd", /install cri-dockerd first/],
      [broken, "1.30", "dockershim", /config\.yaml: line \d/],
      [
        {
          ...kubeadm130,
          "/etc/default/kubelet": "KUBELET_EXTRA_ARGS=--container-runtime-endpoint=unix:///run/link.sock\n",
        },
        ...(["1.30", "dockershim", /run\/link\.sock": if it is the link of record or shadow/] as const),
      ],
    ];
    for (const [tree, version, target, message] of cases)
      await assert.rejects(planOf(await makeNode(t, tree), version, target), message);
  });
});

describe("the diff", { skip: hasPatch() ? false : "there is no patch" }, () => {
  for (const [name, tree, version] of [
    ["kubeadm 1.23", kubeadm123, "1.23.17"],
    ["kubeadm 1.30", kubeadm130, "1.30.1"],
    ["kubeadm 1.34", kubeadm134, "1.34.0"],
    ["plain units", plainUnits, "1.22.0"],
  ] as const) {
    test(`of ${name} applies with patch -p1, and its reverse restores every byte`, async (t) => {
      const root = await makeNode(t, tree);
      const before = await snapshot(root);
      const facts = await factsOf(root, version);
      const plan = await makePlan(facts, { target: "dockershim", program });
      const back = renderPlan(reversePlan(plan, facts));
      const patch = (input: string): void => {
        execFileSync("patch", ["-p1", "-d", root, "--no-backup-if-mismatch", "-s"], { input });
      };
      patch(renderPlan(plan));
      assert.equal(configuredRuntime(await factsOf(root, version)).runtime, "dockershim");
      assert.deepEqual((await planOf(root, version)).edits, []);
      patch(back);
      assert.deepEqual(await snapshot(root), before);
    });
  }
});

test("previousTarget() is cri-dockerd where its units are, else the kubelet's own, else an error", async (t) => {
  assert.equal(previousTarget(await factsOf(await makeNode(t, ours), "1.30")), "cri-dockerd");
  assert.equal(previousTarget(await factsOf(await makeNode(t, plainUnits), "1.22")), "dockershim-in-tree");
  const facts = await factsOf(await makeNode(t, plainUnits), "1.30");
  assert.throws(() => previousTarget(facts), /name it with --to/);
});

test("an endpoint in a YAML file with too many aliases is left alone and named", async (t) => {
  const aliases = `a: &a [1]\nb: [${"*a, ".repeat(200)}*a]\ncontainerRuntimeEndpoint: unix:///run/cri-dockerd.sock\n`;
  const root = await makeNode(t, { ...kubeadm134, "/var/lib/kubelet/config.yaml": aliases });
  const { notUnderstood } = await planOf(root, "1.34.0");
  assert.deepEqual(
    notUnderstood.map(({ place }) => place),
    ["/var/lib/kubelet/config.yaml"],
  );
});

test("makePlan() writes nothing", async (t) => {
  const root = await makeNode(t, kubeadm123);
  const copy = await mkdtemp(join(tmpdir(), "dockershim-copy-"));
  t.after(() => rm(copy, { recursive: true }));
  await mkdir(copy, { recursive: true });
  await cp(root, copy, { recursive: true });
  unifiedDiff((await planOf(root, "1.23.0")).edits);
  assert.deepEqual(await snapshot(root), await snapshot(copy));
});
