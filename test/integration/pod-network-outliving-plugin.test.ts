/** The shim is killed, and the plugin that it ran is not: it must not finish its work after the tear-down. */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, test } from "node:test";
import { withOwnEngine } from "../support/isolated-engine.js";
import { until } from "../support/wait.js";
import { groupLives, NetworkNode, type PluginName } from "./pod-network-support.js";

const plugins: readonly PluginName[] = ["cni", "kubenet"];

await withOwnEngine(import.meta.url, [], () => {
  for (const plugin of plugins) {
    describe(plugin, () => {
      let node: NetworkNode;
      before(async () => {
        node = await NetworkNode.open(plugin);
      });
      afterEach(() => node.clearFaults());
      after(() => node[Symbol.asyncDispose]());

      for (const verb of ["ADD", "DEL"] as const) {
        test(`during ${verb}, and the plugin goes on: the next shim ends it before it undoes anything`, async () => {
          const pod = verb === "DEL" ? await node.runPod() : undefined;
          await node.injectFault("portmap", verb, "wait");
          const call = pod?.stop() ?? node.cri.RunPodSandbox({ config: node.podConfig() });
          call.catch(() => undefined); // It fails with the shim.
          const group = await node.reached();
          await node.shim.kill();
          assert.equal(groupLives(group), true);
          await node.start();
          await until("the plugin to be ended", () => !groupLives(group));
          // It would go on, and finish its work after the tear-down.
          await node.clearFaults();
          const [sandbox] = await node.sandboxes();
          assert.ok(sandbox !== undefined);
          await node.stopAndRemove(sandbox.id);
          await node.assertClean();
        });
      }
    });
  }
});
