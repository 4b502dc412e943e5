/** An engine without its default network: pods of no-op would have no address, those of cni have theirs. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { NamespaceMode } from "../../src/domain/cri.js";
import { rejectsWith } from "../support/cri-client.js";
import { withOwnEngine } from "../support/isolated-engine.js";
import { NetworkNode } from "./pod-network-support.js";

await withOwnEngine(
  import.meta.url,
  [],
  () => {
    describe('with "bridge": "none" in daemon.json', () => {
      const node = NetworkNode.ofSuite("cni");
      const networkReady = async (): Promise<readonly [boolean | undefined, string | undefined]> => {
        const { status } = await node.cri.Status({});
        const condition = status?.conditions.find(({ type }) => type === "NetworkReady");
        return [condition?.status, condition?.message];
      };

      test("no-op is not ready, says why, and refuses pods but those of the host's network", async () => {
        await node.changePlugin("no-op");
        const [ready, message] = await networkReady();
        assert.equal(ready, false);
        assert.match(message ?? "", /no default network \("bridge": "none" in daemon\.json\)/);
        const run = node.cri.RunPodSandbox({ config: node.podConfig() });
        await rejectsWith(run, "UNAVAILABLE", /no default network/);
        assert.deepEqual(await node.sandboxes(), []);
        const options = { network: NamespaceMode.NODE };
        const linux = { security_context: { namespace_options: options } };
        const pod = await node.runPod({ linux, port_mappings: [] });
        await node.stopAndRemove(pod.id);
        await node.assertClean();
      });

      test("cni is ready, and pods have addresses", async () => {
        await node.changePlugin("cni");
        assert.deepEqual(await networkReady(), [true, ""]);
        const pod = await node.runPod();
        assert.match(await pod.ip(), /^10\.181\./);
        await node.stopAndRemove(pod.id);
        await node.assertClean();
      });
    });
  },
  { bridge: "none" },
);
