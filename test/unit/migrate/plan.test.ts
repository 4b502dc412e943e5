import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { makePlan, previousTarget, reversePlan } from "../../../src/migrate/plan/make-plan.js";
import { factsOf, kubeadmFlags, planOf, type Target } from "./plan-bed.js";
import { kubeadm130, kubeadm134, makeNode, type NodeTree, ours, plainUnits } from "./nodes.js";

describe("makePlan()", () => {
  test("back to the dockershim inside the kubelet brings its network flags back", async (t) => {
    const flags = "--container-runtime=remote --container-runtime-endpoint=unix:///var/run/dockershim.sock";
    const tree = { ...ours, [kubeadmFlags]: `KUBELET_KUBEADM_ARGS="${flags}"\n` };
    const { edits } = await planOf(makeNode(t, tree), "1.23.0", "dockershim-in-tree");
    const rows = edits.map(({ path, after }) => [path, after]);
    assert.deepEqual(rows, [[kubeadmFlags, 'KUBELET_KUBEADM_ARGS="--network-plugin=cni"\n']]);
  });

  test("the path of the program is one word of ExecStart, whatever is in it", async (t) => {
    const root = makeNode(t, kubeadm130);
    const path = "/opt/my shim/100%/dockershim";
    const { edits } = await makePlan(await factsOf(root, "1.30.1"), { target: "dockershim", program: path });
    const unit = edits.find((edit) => edit.path.endsWith("dockershim.service"))?.after ?? "";
    assert.match(unit, /^ExecStart="\/opt\/my shim\/100%%\/dockershim" --network-plugin=cni /m);
  });

  test("a flag is added behind the last line of a command with a comment between its lines", async (t) => {
    const unit =
      "[Service]\nExecStart=/usr/bin/kubelet --v=2 \\\n  # no network\n  --cgroup-driver=cgroupfs\n";
    const tree = { ...plainUnits, "/etc/systemd/system/kubelet.service": unit };
    const { edits } = await planOf(makeNode(t, tree), "1.22.0");
    const after = edits.find(({ path }) => path.endsWith("/kubelet.service"))?.after ?? "";
    assert.match(
      after,
      /\n {2}# no network\n {2}--cgroup-driver=cgroupfs --container-runtime=remote --container-/,
    );
  });

  const flagsOf = (endpoint: string, flags: string): string =>
    `KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///${endpoint}${flags}"\n`;
  const [own, theirs] = ["var/run/dockershim.sock", "run/cri-dockerd.sock"];
  const [ownFlag, other] = [" --containerd=/run/dockershim/cadvisor.sock", " --containerd=/run/o.sock"];
  const moved = "--cadvisor-socket=/run/x.sock";
  // Without `after` nothing is edited.
  const rows: readonly (readonly [what: string, shim: string, flags: string, after?: string, to?: Target])[] =
    [
      ["stays, with the default", "", ownFlag],
      ["stays, with a socket of its own", moved, " --containerd /run/x.sock"],
      [
        "stays, with a socket unit",
        "--cadvisor-socket=fd://",
        " --containerd=/var/run/dockershim/cadvisor.sock",
      ],
      ["stays away where nothing is served", "--cadvisor-socket=", " --v=2"],
      ["is corrected", moved, other, flagsOf(own, " --containerd=/run/x.sock")],
      ["goes on the way back", "", ownFlag, flagsOf(theirs, ""), "cri-dockerd"],
      ["of another program stays on the way back", "", other, flagsOf(theirs, other), "cri-dockerd"],
    ];
  for (const [what, shim, flags, after, target = "dockershim"] of rows)
    test(`the flag for cAdvisor ${what}`, async (t) => {
      const before = flagsOf(own, flags);
      const root = makeNode(t, {
        ...ours,
        "/etc/systemd/system/dockershim.service": `[Service]\nExecStart=/opt/dockershim/bin/dockershim ${shim}\n`,
        [kubeadmFlags]: before,
      });
      const plan = await planOf(root, "1.30.0", target);
      assert.deepEqual(plan.edits, after === undefined ? [] : [{ path: kubeadmFlags, before, after }]);
      if (after === undefined) assert.deepEqual(plan.commands, []);
      const disables = plan.commands.some((command) => command.includes("disable"));
      assert.equal(disables, target === "cri-dockerd");
      const back = reversePlan(plan, await factsOf(root, "1.30.0"));
      for (const edit of back.edits) assert.equal(edit.after, before);
      assert.equal(back.edits.length, plan.edits.length);
    });

  test("the flag for cAdvisor is not written for a kubelet of 1.37, which would not start, and is removed", async (t) => {
    const unit = "[Service]\nExecStart=/opt/dockershim/bin/dockershim\n";
    for (const [flags, after] of [
      ["", undefined],
      [ownFlag, flagsOf(own, "")],
    ] as const) {
      const before = flagsOf(own, flags);
      const files = { "/etc/systemd/system/dockershim.service": unit, [kubeadmFlags]: before };
      const plan = await planOf(makeNode(t, { ...ours, ...files }), "1.37.0", "dockershim");
      assert.deepEqual(plan.edits, after === undefined ? [] : [{ path: kubeadmFlags, before, after }]);
    }
  });

  test("a later drop-in that would win is an error, and no plan", async (t) => {
    const tree = {
      ...plainUnits,
      "/etc/systemd/system/kubelet.service.d/99-late.conf":
        "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet --container-runtime=docker $LATE\nEnvironment=LATE=--v=2\n",
      "/usr/lib/systemd/system/kubelet.service.d/99-later.conf":
        "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet --container-runtime=docker\n",
    };
    await assert.rejects(planOf(makeNode(t, tree), "1.22.0"), /edit the kubelet's files by hand/);
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
      await assert.rejects(planOf(makeNode(t, tree), version, target), message);
  });
});

test("previousTarget() is cri-dockerd where its units are, else the kubelet's own, else an error", async (t) => {
  assert.equal(previousTarget(await factsOf(makeNode(t, ours), "1.30")), "cri-dockerd");
  assert.equal(previousTarget(await factsOf(makeNode(t, plainUnits), "1.22")), "dockershim-in-tree");
  const facts = await factsOf(makeNode(t, plainUnits), "1.30");
  assert.throws(() => previousTarget(facts), /name it with --to/);
});

test("an endpoint in a YAML file with too many aliases is left alone and named", async (t) => {
  const aliases = `a: &a [1]\nb: [${"*a, ".repeat(200)}*a]\ncontainerRuntimeEndpoint: unix:///run/cri-dockerd.sock\n`;
  const root = makeNode(t, { ...kubeadm134, "/var/lib/kubelet/config.yaml": aliases });
  const { notUnderstood } = await planOf(root, "1.34.0");
  const places = notUnderstood.map(({ place }) => place);
  assert.deepEqual(places, ["/var/lib/kubelet/config.yaml"]);
});
