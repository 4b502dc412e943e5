import assert from "node:assert/strict";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { selectNetworkPlugin } from "../../../src/network/select-plugin.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { selection } from "./fake-plugin.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const never = new AbortController().signal;

describe("selectNetworkPlugin()", () => {
  test("auto gives no-op on a node without CNI, and says why", async () => {
    await using at = await temporaryDirectory();
    const { plugin, orphans } = await selectNetworkPlugin(selection(at.path, "auto"), recordingLog());
    assert.equal(plugin.name, "kubernetes.io/no-op");
    assert.ok(plugin.reason.includes(at.path) && plugin.reason.includes("does not exist"));
    assert.equal(orphans, undefined);
  });

  test("auto gives cni when the directory appears later, unless a pod has a network of no-op by then", async () => {
    await using at = await temporaryDirectory();
    let hasPods = true;
    const node = { ...selection(at.path, "auto"), hasPodsOfNoop: () => hasPods };
    const { plugin } = await selectNetworkPlugin(node, recordingLog());
    await plugin.start(never);
    try {
      await mkdir(join(at.path, "net.d"));
      assert.deepEqual([plugin.notReadyReason(), plugin.dockerNetworkMode], [undefined, "default"]);
      // Docker alone knows whether the host port of a dead pod is free.
      const ports = [{ protocol: "tcp", containerPort: 80, hostPort: 8080, hostIp: "" }] as const;
      const pod = { namespace: "default", uid: "u", netns: "/none", annotations: {}, portMappings: ports };
      for (const name of ["a", "b"])
        assert.equal(await plugin.setUpPod({ ...pod, name, sandboxId: name }, never), undefined);
      hasPods = false;
      assert.match(plugin.notReadyReason() ?? "", /being read|no networks found|uninitialized/);
      assert.deepEqual([plugin.name, plugin.dockerNetworkMode], ["cni", "none"]);
      assert.match(plugin.reason, /net\.d" exists$/);
      assert.equal(plugin.dockerPublishesPorts, false);
      hasPods = true;
      await rm(join(at.path, "net.d"), { recursive: true });
      assert.notEqual(plugin.notReadyReason(), undefined);
    } finally {
      await plugin.stop();
    }
  });

  test("auto gives cni where the directory exists, not ready until it holds a list, and stays with it", async () => {
    await using at = await temporaryDirectory();
    await mkdir(join(at.path, "net.d"));
    const { plugin } = await selectNetworkPlugin(selection(at.path, "auto"), recordingLog());
    assert.equal(plugin.name, "cni");
    assert.ok(plugin.reason.includes("exists"));
    assert.equal(plugin.dockerNetworkMode, "none");
    await plugin.start(never);
    try {
      assert.match(plugin.notReadyReason() ?? "", /no networks found|uninitialized/);
      await rm(join(at.path, "net.d"), { recursive: true });
      assert.notEqual(plugin.notReadyReason(), undefined);
    } finally {
      await plugin.stop();
    }
  });

  test("auto stays with cni while pods have networks of it, also when the directory went meanwhile", async () => {
    await using at = await temporaryDirectory();
    const flags = { ...selection(at.path, "auto"), podsOfCni: true };
    const { plugin } = await selectNetworkPlugin(flags, recordingLog());
    assert.deepEqual([plugin.name, plugin.reason], ["cni", "pods of this node have networks of CNI"]);
  });

  test("no-op and cni are taken at their word, whatever the node has", async () => {
    await using at = await temporaryDirectory();
    for (const name of ["no-op", "cni"] as const) {
      const expected = name === "cni" ? "cni" : "kubernetes.io/no-op";
      const { plugin } = await selectNetworkPlugin(selection(at.path, name), recordingLog());
      assert.deepEqual([plugin.name, plugin.reason], [expected, `--network-plugin=${name}`]);
    }
  });

  for (const name of ["cni", "kubenet"] as const) {
    test(`${name}: the pod CIDR of the flag stays, whatever the kubelet tells, and only what counts is remembered`, async () => {
      await using at = await temporaryDirectory();
      await mkdir(join(at.path, "net.d"));
      const written: (readonly string[])[] = [];
      const remember = async (cidrs: readonly string[]): Promise<void> => void written.push(cidrs);
      const open = async (flag: readonly string[], remembered: readonly string[]) => {
        const podCidrs = { flag, remembered, remember };
        const own = { ...selection(at.path, name), podCidrs };
        const { plugin } = await selectNetworkPlugin(own, recordingLog());
        await plugin.start(never);
        return plugin;
      };
      const flagged = await open(["10.1.0.0/16"], ["10.9.0.0/16"]);
      await flagged.podCidrChanged(["10.2.0.0/16"]);
      assert.deepEqual([flagged.describe()["podCidrs"], written], [["10.1.0.0/16"], []]);
      await flagged.stop();

      const told = await open([], ["10.9.0.0/16"]);
      assert.deepEqual(told.describe()["podCidrs"], ["10.9.0.0/16"]);
      await told.podCidrChanged(["nonsense"]);
      await told.podCidrChanged(["10.2.0.7/16"]);
      await told.podCidrChanged(["10.3.0.0/16"]);
      assert.deepEqual([told.describe()["podCidrs"], written], [["10.2.0.0/16"], [["10.2.0.0/16"]]]);
      await told.stop();
    });
  }

  test("kubenet starts on a node whose tools are missing or hang, and is not ready", async () => {
    await using at = await temporaryDirectory();
    const { plugin } = await selectNetworkPlugin(selection(at.path, "kubenet"), recordingLog());
    await plugin.start(never);
    assert.match(plugin.notReadyReason() ?? "", /when the Docker Engine answers/);
    await plugin.stop();
  });
});
