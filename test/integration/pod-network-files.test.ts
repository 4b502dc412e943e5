/** Configuration files as networks have installed them, with real plugins. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { NamespaceMode } from "../../src/domain/cri.js";
import { rejectsWith } from "../support/cri-client.js";
import { withOwnEngine } from "../support/isolated-engine.js";
import { until } from "../support/wait.js";
import { NetworkNode } from "./pod-network-support.js";

const bridge = {
  ...{ type: "bridge", bridge: "cni0", isGateway: true },
  ipam: { type: "host-local", subnet: "10.181.0.0/24", routes: [{ dst: "0.0.0.0/0" }] },
};
const portmap = { type: "portmap", capabilities: { portMappings: true } };

await withOwnEngine(import.meta.url, [], () => {
  describe("the file", () => {
    const node = NetworkNode.ofSuite("cni");

    async function networkReady(): Promise<readonly [boolean | undefined, string]> {
      const { status } = await node.cri.Status({});
      const condition = status?.conditions.find(({ type }) => type === "NetworkReady");
      return [condition?.status, condition?.message ?? ""];
    }

    const files: readonly (readonly [what: string, name: string, content: object])[] = [
      ["a list without a version", "10-a.conflist", { name: "chain", plugins: [bridge, portmap] }],
      [
        "a list with an empty one",
        "10-a.conflist",
        { cniVersion: "", name: "chain", plugins: [bridge, portmap] },
      ],
      [
        "a plugin without a version",
        "10-a.conf",
        { name: "chain", ...bridge, dns: null, capabilities: null },
      ],
    ];
    for (const [what, name, content] of files) {
      test(`is ${what}: the pod has an address, and leaves nothing`, async () => {
        await node.configureWith(name, content);
        await node.restart();
        assert.deepEqual(await networkReady(), [true, ""]);
        const pod = await node.runPod({ port_mappings: [] });
        assert.match(await pod.ip(), /^10\.181\.0\./);
        await node.stopAndRemove(pod.id);
        await node.assertClean();
      });
    }

    test("is loopback alone: the node is not ready until another one is there, host-network pods run", async () => {
      await node.configureWith("99-loopback.conf", { cniVersion: "0.3.1", name: "lo", type: "loopback" });
      await until("the node to be not ready", async () => !(await networkReady())[0]);
      assert.match((await networkReady())[1], /99-loopback\.conf: its only plugin is "loopback"/);
      const refused = node.cri.RunPodSandbox({ config: node.podConfig() });
      await rejectsWith(refused, "UNAVAILABLE", /its only plugin is "loopback"/);
      const linux = { security_context: { namespace_options: { network: NamespaceMode.NODE } } };
      const pod = await node.runPod({ linux, port_mappings: [] });
      await node.stopAndRemove(pod.id);
      await node.configure();
      await until("the node to be ready", async () => (await networkReady())[0]);
      await node.assertClean();
    });
  });
});
