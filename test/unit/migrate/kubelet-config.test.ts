import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { readKubelet } from "../../../src/migrate/kubelet/read-kubelet.js";
import { NodeFiles } from "../../../src/migrate/files/node-files.js";
import { setYamlValue } from "../../../src/migrate/plan/edit-yaml.js";
import { check, idsOf } from "./check-bed.js";
import { kubeadm130, kubeadm134, makeNode, type NodeTree } from "./nodes.js";
import { planOf } from "./plan-bed.js";

const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
const configDirectory = { "/etc/default/kubelet": "KUBELET_EXTRA_ARGS=--config-dir=/etc/kubelet.d\n" };

async function settingsOf(
  t: Parameters<typeof makeNode>[0],
  tree: NodeTree,
): Promise<Readonly<Record<string, string>>> {
  const files = new NodeFiles(makeNode(t, { ...kubeadm130, ...tree }));
  const { settings } = await readKubelet(files, "1.30", () => Promise.resolve(undefined));
  return Object.fromEntries(
    [...settings]
      .filter(([key]) => key !== "apiVersion" && key !== "kind")
      .map(([key, { value, path, line }]) => [key, `${value} ${path}:${line}`]),
  );
}

// What kubelet 1.36.2 did with such files.
describe("the configuration of a kubelet", () => {
  test("files of --config-dir win over --config, in the order of a walk through the directory", async (t) => {
    const tree = {
      ...configDirectory,
      "/var/lib/kubelet/config.yaml": `${head}staticPodPath: /config\ncgroupDriver: cgroupfs\nfailCgroupV1: false\n`,
      "/etc/kubelet.d/20-b.conf": `${head}containerRuntimeEndpoint: unix:///b.sock\n`,
      "/etc/kubelet.d/10-a.conf": `${head}containerRuntimeEndpoint: unix:///a.sock\ncgroupDriver: systemd\n`,
      "/etc/kubelet.d/15.conf/z.conf": `${head}staticPodPath: /inner\nfailCgroupV1: null\n`,
      "/etc/kubelet.d/.hidden.conf": `${head}staticPodPath: /hidden\n`,
      "/etc/kubelet.d/99.yaml": `${head}staticPodPath: /yaml\n`,
      "/etc/kubelet.d/99.CONF": `${head}staticPodPath: /upper\n`,
    };
    assert.deepEqual(await settingsOf(t, tree), {
      containerRuntimeEndpoint: "unix:///b.sock /etc/kubelet.d/20-b.conf:3",
      cgroupDriver: "systemd /etc/kubelet.d/10-a.conf:4",
      staticPodPath: "/inner /etc/kubelet.d/15.conf/z.conf:3",
    });
  });

  test("a directory that is a link has no effect", async (t) => {
    const tree = {
      ...configDirectory,
      "/var/lib/kubelet/config.yaml": `${head}staticPodPath: /config\n`,
      "/etc/kubelet.d": { linkTo: "/etc/other.d" },
      "/etc/other.d/1.conf": `${head}staticPodPath: /other\n`,
    };
    assert.deepEqual(await settingsOf(t, tree), { staticPodPath: "/config /var/lib/kubelet/config.yaml:3" });
  });

  test("of several YAML documents the first counts, also when the second is broken", async (t) => {
    const tree = {
      "/var/lib/kubelet/config.yaml": `# a comment\n---\n${head}staticPodPath: /first\n---\nstaticPodPath: /second\n---\na: [1\n`,
    };
    assert.deepEqual(await settingsOf(t, tree), { staticPodPath: "/first /var/lib/kubelet/config.yaml:5" });
    assert.ok(!idsOf(await check(t, { tree: { ...kubeadm130, ...tree } })).includes("kubelet-config-broken"));
  });

  for (const [title, tree] of [
    ["a missing directory", {}],
    ["a file that is empty", { "/etc/kubelet.d/1.conf": "" }],
    ["a file that does not parse", { "/etc/kubelet.d/1.conf": "a: [1\nb: 2\n" }],
    ["a link that leads nowhere", { "/etc/kubelet.d/1.conf": { linkTo: "/absent" } }],
  ] as const satisfies readonly (readonly [string, NodeTree])[])
    test(`${title} of --config-dir blocks, and there is no plan`, async (t) => {
      const node = { ...kubeadm130, ...configDirectory, ...tree };
      const report = await check(t, { tree: node });
      const found = report.findings.filter(({ id }) => id === "kubelet-config-broken");
      const rows = found.map(({ level, source }) => [level, source.replace("/1.conf", "")]);
      assert.deepEqual(rows, [["blocked", "/etc/kubelet.d"]]);
      await assert.rejects(planOf(makeNode(t, node), "1.30.1"), /etc\/kubelet\.d.*correct it first/);
    });

  test("migrate plan edits the file of --config-dir whose endpoint counts", async (t) => {
    const endpoint = "containerRuntimeEndpoint: unix:///var/run/cri-dockerd.sock # cri-dockerd\n";
    const tree = {
      ...kubeadm134,
      ...configDirectory,
      "/etc/kubelet.d/20-runtime.conf": head + endpoint,
      "/etc/kubelet.d/30-other.conf": `${head}staticPodPath: /x\n`,
    };
    const { edits, notUnderstood } = await planOf(makeNode(t, tree), "1.34.0");
    assert.deepEqual(notUnderstood, []);
    assert.deepEqual(
      edits.map(({ path }) => path.split("/").at(-1)),
      // The last has the flag --containerd, which no configuration file can have.
      ["20-runtime.conf", "dockershim.service", "instance-config.yaml", "kubeadm-flags.env"],
    );
    assert.equal(edits[0]?.after, head + endpoint.replace("cri-dockerd.sock", "dockershim.sock"));
  });

  test("migrate plan edits --config where no file of --config-dir names an endpoint", async (t) => {
    const tree = { ...kubeadm134, ...configDirectory, "/etc/kubelet.d/1.conf": `${head}staticPodPath: /x\n` };
    const { edits } = await planOf(makeNode(t, tree), "1.34.0");
    assert.ok(edits.some(({ path }) => path === "/var/lib/kubelet/config.yaml"));
  });
});

test("setYamlValue() edits the first of several documents, and no byte of the others", async () => {
  const others = "---\na: 3\n---\nb: [\n";
  assert.equal(await setYamlValue(`a: 1 # one\n${others}`, "a", "x"), `a: x # one\n${others}`);
  assert.equal(await setYamlValue(`a: 1\n${others}`, "c", "x"), `a: 1\nc: x\n${others}`);
  assert.equal(await setYamlValue(`---\na: 1\n...\n${others}`, "c", "x"), `---\na: 1\nc: x\n...\n${others}`);
});
