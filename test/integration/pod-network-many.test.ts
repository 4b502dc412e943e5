/** Many pods at once, through the CRI with real plugins: nothing is left of them. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { withOwnEngine } from "../support/isolated-engine.js";
import { long } from "../support/test-bed.js";
import { NetworkNode, type PluginName } from "./pod-network-support.js";

const podCount = long ? 200 : 20;
const width = 10;
const plugins: readonly PluginName[] = long ? ["cni", "kubenet"] : ["cni"];

await withOwnEngine(import.meta.url, [], () => {
  for (const plugin of plugins) {
    describe(plugin, () => {
      const node = NetworkNode.ofSuite(plugin);

      test(`${String(podCount)} pods set up and torn down ${String(width)} at a time have addresses of their own and leave nothing`, async () => {
        const inUse = new Set<string>();
        let begun = 0;
        const lock = async (): Promise<void> => {
          while (begun < podCount) {
            begun += 1;
            const pod = await node.runPod();
            const { network } = await pod.status();
            const addresses = [network?.ip ?? "", ...(network?.additional_ips ?? []).map(({ ip }) => ip)];
            assert.equal(addresses.length, 2);
            for (const address of addresses) {
              assert.ok(!inUse.has(address), `${address} was given out twice`);
              inUse.add(address);
            }
            await pod.stop();
            for (const address of addresses) inUse.delete(address);
            await pod.remove();
          }
        };
        await Promise.all(Array.from({ length: width }, lock));
        await node.assertClean();
      });
    });
  }
});
