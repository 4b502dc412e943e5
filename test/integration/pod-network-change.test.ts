/** A node whose network plugin changes while pods are there: each is released at once, and wholly. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { withOwnEngine } from "../support/isolated-engine.js";
import { inspectContainer } from "../support/docker.js";
import { long } from "../support/test-bed.js";
import { until } from "../support/wait.js";
import { killPause, NetworkNode } from "./pod-network-support.js";

const plugins = ["no-op", "cni", "kubenet"] as const;

/** What only pods have; the node's own bridges and rules stay. */
const ofPods =
  /^link (?:veth|bwp)|^address |^cached |^state |^container |nat .*(?:CNI-DN-|CNI-[0-9a-f]{24})|filter .*CNI-FORWARD .*10\.18|--dport 2\d{4}/;

await withOwnEngine(import.meta.url, [], () => {
  describe("a pod", () => {
    const node = NetworkNode.ofSuite("cni");
    const held = async (): Promise<readonly string[]> =>
      (await node.holdings()).filter((line) => ofPods.test(line) && !/-N |- $/.test(line));

    async function assertNothingHeld(): Promise<void> {
      await until("nothing to be held", async () => (await held()).length === 0).catch(() => undefined);
      assert.deepEqual(await held(), []);
    }

    for (const [index, from] of plugins.entries()) {
      // Without `--long` each once in place of another, and replaced by another.
      const next = plugins[(index + 1) % plugins.length];
      for (const to of plugins.filter((plugin) => (long ? plugin !== from : plugin === next))) {
        test(`of ${from} has its address, and is released by the first StopPodSandbox, with ${to}`, async () => {
          await node.changePlugin(from);
          const pod = await node.runPod();
          const dead = await node.runPod();
          const ip = await pod.ip();
          assert.notEqual(ip, "");
          await node.changePlugin(to);
          const { status } = await node.cri.PodSandboxStatus({ pod_sandbox_id: pod.id });
          assert.equal(status?.network?.ip, ip);
          await killPause(dead.id);
          await until("its end", async () => (await inspectContainer(dead.id))?.State.Running === false);
          for (const { id } of [pod, dead]) await node.stopAndRemove(id);
          await assertNothingHeld();
        });
      }
    }
  });
});
