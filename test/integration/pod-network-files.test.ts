/** Configuration files as networks have installed them, and plugins that change while pods are there. */
import assert from "node:assert/strict";
import { isIP } from "node:net";
import { describe, test } from "node:test";
import { NamespaceMode } from "../../src/domain/cri.js";
import { rejectsWith } from "../support/cri-client.js";
import { inspectContainer } from "../support/docker.js";
import { withOwnEngine } from "../support/isolated-engine.js";
import { long } from "../support/test-bed.js";
import { until } from "../support/wait.js";
import { answerIn, ask } from "./kubenet-support.js";
import { killPause, netnsOf, NetworkNode } from "./pod-network-support.js";

const bridge = {
  ...{ type: "bridge", bridge: "cni0", isGateway: true },
  ipam: { type: "host-local", subnet: "10.181.0.0/24", routes: [{ dst: "0.0.0.0/0" }] },
};
const portmap = { type: "portmap", capabilities: { portMappings: true } };

const plugins = ["no-op", "cni", "kubenet"] as const;

/** What only pods have; the node's own bridges and rules stay. */
const ofPods =
  /^link (?:veth|bwp)|^address |^cached |^state |^container |nat .*(?:CNI-DN-|CNI-[0-9a-f]{24})|filter .*CNI-FORWARD .*10\.18|--dport 2\d{4}/;

await withOwnEngine(import.meta.url, [], () => {
  describe("the network of a node", () => {
    const node = NetworkNode.ofSuite("cni");

    const files: readonly (readonly [what: string, name: string, content: object])[] = [
      ["a list without a version", "10-a.conflist", { name: "chain", plugins: [bridge, portmap] }],
      [
        "a plugin without a version",
        "10-a.conf",
        { name: "chain", ...bridge, dns: null, capabilities: null },
      ],
    ];
    for (const [what, name, content] of files) {
      test(`is configured by ${what}: the pod has an address, and leaves nothing`, async () => {
        await node.configureWith(name, content);
        await node.restart();
        assert.equal(await node.networkProblem(), undefined);
        const pod = await node.runPod({ port_mappings: [] });
        assert.match(await pod.ip(), /^10\.181\.0\./);
        await node.stopAndRemove(pod.id);
        await node.assertClean();
      });
    }

    test("is loopback alone: the node is not ready until another one is there, host-network pods run", async () => {
      await node.configureWith("99-loopback.conf", { cniVersion: "0.3.1", name: "lo", type: "loopback" });
      const problem = await until("the node to be not ready", () => node.networkProblem());
      assert.match(problem, /99-loopback\.conf: its only plugin is "loopback"/);
      const refused = node.cri.RunPodSandbox({ config: node.podConfig() });
      await rejectsWith(refused, "UNAVAILABLE", /its only plugin is "loopback"/);
      const linux = { security_context: { namespace_options: { network: NamespaceMode.NODE } } };
      const pod = await node.runPod({ linux, port_mappings: [] });
      await node.stopAndRemove(pod.id);
      await node.configure();
      await until("the node to be ready", async () => (await node.networkProblem()) === undefined);
      await node.assertClean();
    });

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
        test(`was ${from}, and is ${to} now: a pod has its address, and is released by the first StopPodSandbox`, async () => {
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

    test("is the example that is offered: with it, addresses and host ports of both families work at once", async () => {
      await node.changePlugin("cni");
      await node.configureWith("00-none", {});
      const cidrs = "--pod-cidr=10.180.2.0/24,fd00:180:2::/64";
      await node.restart({ flags: [...node.flags, cidrs, "--write-example-cni-config"] });
      await until("the network to be ready", async () => (await node.networkProblem()) === undefined);
      const pod = await node.runPod();
      const { network } = await pod.status();
      const addresses = [network?.ip ?? "", ...(network?.additional_ips ?? []).map(({ ip }) => ip)];
      assert.deepEqual(addresses.map(isIP), [4, 6]);
      const netns = await netnsOf(pod.id);
      await using _server = await answerIn(netns, { port: 8080, text: "hello" });
      const hostPort = pod.config.port_mappings?.[0]?.host_port ?? 0;
      for (const address of addresses) {
        // The bridge has the first address of the pod's network.
        const bridge = address.replace(/[^.:]+$/, "1");
        for (const caller of [undefined, netns]) {
          for (const [host, port] of [
            [address, 8080],
            [bridge, hostPort],
          ] as const)
            // For a second or two after its birth the bridge does not use its IPv6 address.
            await until(`an answer from ${host} port ${port}`, async () => {
              return (await ask(caller, { protocol: "tcp", host, port })) === "hello";
            });
        }
      }
      await node.stopAndRemove(pod.id);
      await assertNothingHeld();
    });
  });
});
