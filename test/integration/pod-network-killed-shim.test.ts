/** The shim is killed while a plugin of a chain runs: Stop and Remove through the next shim leave nothing. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { PodSandboxState } from "../../src/domain/cri.js";
import { withOwnEngine } from "../support/isolated-engine.js";
import { long } from "../support/test-bed.js";
import { until } from "../support/wait.js";
import { chain, type ChainPlugin, groupLives, kubenetChain, NetworkNode } from "./pod-network-support.js";

const plugins = [
  ["cni", chain],
  ["kubenet", kubenetChain],
] as const;

/** A service manager may kill what its service has started, or not. */
const fates = ["dies with the shim", "ends by itself before the next one"] as const;

/** Without `--long`: the address plugin, and one behind it. */
const usualOfKubenet: readonly ChainPlugin[] = ["host-local", "portmap"];

await withOwnEngine(import.meta.url, [], () => {
  for (const [plugin, names] of plugins) {
    describe(plugin, () => {
      const node = NetworkNode.ofSuite(plugin);

      /** Kills the shim while the plugin is at work in `call`, and starts another. */
      async function killDuring(
        call: () => Promise<unknown>,
        [name, verb, fate]: readonly [ChainPlugin, "ADD" | "DEL", (typeof fates)[number]],
      ): Promise<void> {
        await node.injectFault(name, verb, "wait");
        call().catch(() => undefined); // It fails with the shim.
        const group = await node.reached();
        await node.shim.kill();
        if (fate === fates[0]) process.kill(-group, "SIGKILL");
        await node.clearFaults();
        await until("the plugin to end", () => !groupLives(group));
        await node.start();
      }

      for (const [index, name] of names.entries()) {
        if (!long && plugin === "kubenet" && !usualOfKubenet.includes(name)) continue;
        const fate = fates[(index >> 1) % fates.length] ?? fates[0];
        // Without `--long` the shim is killed at ADD of one plugin, and at DEL of the next.
        const isAtAdd = index % 2 === 0;
        for (const fateOfAdd of long ? fates : isAtAdd ? [fate] : []) {
          test(`during ADD of ${name}, which ${fateOfAdd}: the sandbox is not ready, Stop and Remove clean it`, async () => {
            const config = node.podConfig();
            await killDuring(() => node.cri.RunPodSandbox({ config }), [name, "ADD", fateOfAdd]);
            const [sandbox, ...others] = await node.sandboxes();
            assert.ok(sandbox !== undefined && others.length === 0);
            assert.equal(sandbox.state, PodSandboxState.SANDBOX_NOTREADY);
            await node.stopAndRemove(sandbox.id);
            await node.assertClean();
          });
        }

        if (!long && isAtAdd) continue;
        test(`during DEL of ${name}, which ${fate}: Stop and Remove clean the sandbox`, async () => {
          const pod = await node.runPod();
          await killDuring(() => pod.stop(), [name, "DEL", fate]);
          assert.deepEqual(await node.sandboxes(), [{ id: pod.id, state: PodSandboxState.SANDBOX_NOTREADY }]);
          await node.stopAndRemove(pod.id);
          await node.assertClean();
        });
      }

      if (!long && plugin === "kubenet") return;
      test("during ADD, and the same request again: the new sandbox replaces the dead one with all it held", async () => {
        const config = node.podConfig();
        await killDuring(() => node.cri.RunPodSandbox({ config }), ["bandwidth", "ADD", fates[1]]);
        const [dead] = await node.sandboxes();
        assert.ok(dead !== undefined);
        await node.cri.StopPodSandbox({ pod_sandbox_id: dead.id });
        const { pod_sandbox_id } = await node.cri.RunPodSandbox({ config });
        assert.notEqual(pod_sandbox_id, dead.id);
        await node.assertHeld();
        await node.stopAndRemove(pod_sandbox_id);
        await node.assertClean();
      });

      test("during ADD, and the next attempt of the pod: it gets the host port of the dead one, unasked", async () => {
        const config = node.podConfig();
        await killDuring(() => node.cri.RunPodSandbox({ config }), ["bandwidth", "ADD", fates[1]]);
        const [dead] = await node.sandboxes();
        assert.ok(dead !== undefined);
        const next = { ...config, metadata: { ...config.metadata, attempt: 1 } };
        const { pod_sandbox_id } = await node.cri.RunPodSandbox({ config: next });
        await node.assertHeld();
        await node.stopAndRemove(dead.id);
        await node.assertHeld();
        await node.stopAndRemove(pod_sandbox_id);
        await node.assertClean();
      });

      for (const verb of ["ADD", "DEL"] as const) {
        test(`during ${verb}, and the plugin lives on: the next shim ends it before it undoes anything`, async () => {
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
