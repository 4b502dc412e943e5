/** Each plugin of a chain fails in each way, at ADD and at DEL: in the end nothing is left of the pod. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { PodSandboxState } from "../../src/domain/cri.js";
import { rejectsWith } from "../support/cri-client.js";
import { withOwnEngine } from "../support/isolated-engine.js";
import { long } from "../support/test-bed.js";
import { until } from "../support/wait.js";
import {
  chain,
  type ChainPlugin,
  hanging,
  kubenetChain,
  NetworkNode,
  pauseRuns,
  type PluginName,
  type PluginFault,
} from "./pod-network-support.js";

const plugins = [
  ["cni", chain],
  ["kubenet", kubenetChain],
] as const;
const addFaults: Readonly<Record<PluginName, readonly PluginFault[]>> = {
  cni: ["fail", "late", "garbage"],
  kubenet: ["late"],
};
/** Without `--long` a plugin of cni fails at ADD in one way, the next such one in the next way. */
const faultsOf = (plugin: PluginName, index: number): readonly PluginFault[] =>
  addFaults[plugin].filter((_, way, ways) => long || way === (index / 2) % ways.length);
/** The address plugin, and one behind it. */
const hangs: readonly ChainPlugin[] = long ? ["host-local", "portmap"] : ["portmap"];

await withOwnEngine(import.meta.url, [], () => {
  for (const [plugin, names] of plugins) {
    describe(plugin, () => {
      const node = NetworkNode.ofSuite(plugin);

      for (const [index, name] of names.entries()) {
        if (!long && plugin === "kubenet" && name !== "portmap") continue;
        // Without `--long` one plugin of the list fails at ADD, the next one at DEL.
        const isAtAdd = index % 2 === 0;
        for (const fault of !long && !isAtAdd ? [] : faultsOf(plugin, index)) {
          test(`ADD of ${name} ends with ${fault}: the error names it, and the sandbox is undone`, async () => {
            await node.injectFault(name, "ADD", fault);
            const run = node.cri.RunPodSandbox({ config: node.podConfig() });
            // What the address plugin says comes through the one that runs it.
            const caller = name === "host-local" ? "bridge" : name;
            await rejectsWith(
              run,
              "UNKNOWN",
              new RegExp(`CNI plugin "${caller}" ADD for pod "dockershim-test/`),
            );
            assert.deepEqual(await node.sandboxes(), []);
            await node.assertClean();
          });
        }

        if (!long && isAtAdd && plugin === "cni") continue;
        test(`DEL of ${name} fails once: the error names it, and the next try ends it`, async () => {
          const pod = await node.runPod();
          await node.assertHeld();
          await node.injectFault(name, "DEL", "once");
          await rejectsWith(pod.stop(), "UNKNOWN", /CNI plugin "[a-z-]+" DEL for pod "dockershim-test\//);
          assert.equal(await pauseRuns(pod.id), false);
          assert.equal((await pod.status()).state, PodSandboxState.SANDBOX_NOTREADY);
          await pod.stop();
          await pod.remove();
          await node.assertClean();
        });

        if (!long && name !== "host-local") continue;
        test(`DEL of ${name} fails for a while, late, and across a restart of the shim`, async () => {
          const pod = await node.runPod();
          await node.injectFault(name, "DEL", "late");
          await rejectsWith(pod.stop(), "UNKNOWN");
          await rejectsWith(pod.remove(), "UNKNOWN");
          await node.restart();
          await rejectsWith(node.cri.StopPodSandbox({ pod_sandbox_id: pod.id }), "UNKNOWN");
          await rejectsWith(node.cri.RemovePodSandbox({ pod_sandbox_id: pod.id }), "UNKNOWN");
          assert.deepEqual(await node.sandboxes(), [{ id: pod.id, state: PodSandboxState.SANDBOX_NOTREADY }]);
          await node.clearFaults();
          await node.stopAndRemove(pod.id);
          await node.assertClean();
        });
      }

      // What the shim makes of it is the same for both.
      if (!long && plugin === "kubenet") return;
      test("ADD fails, and so does the DEL that undoes it: the sandbox is listed, and Stop and Remove end it", async () => {
        await node.injectFault("bandwidth", "ADD", "late");
        await node.injectFault("portmap", "DEL", "fail");
        await rejectsWith(node.cri.RunPodSandbox({ config: node.podConfig() }), "UNKNOWN", /"bandwidth" ADD/);
        const [sandbox, ...others] = await node.sandboxes();
        assert.ok(sandbox !== undefined && others.length === 0);
        assert.equal(sandbox.state, PodSandboxState.SANDBOX_NOTREADY);
        assert.equal(await pauseRuns(sandbox.id), true);
        await rejectsWith(node.stopAndRemove(sandbox.id), "UNKNOWN", /"portmap" DEL/);
        await node.clearFaults();
        await node.stopAndRemove(sandbox.id);
        await node.assertClean();
      });

      for (const name of hangs) {
        test(`ADD of ${name} hangs: it dies with all its processes when the caller gives up, and nothing is left`, async () => {
          await node.injectFault(name, "ADD", "hang");
          const run = node.cri.RunPodSandbox({ config: node.podConfig() }, { timeoutMs: 3_000 });
          await rejectsWith(run, "DEADLINE_EXCEEDED");
          await until("the plugin to die", async () => (await hanging()).length === 0);
          await node.assertClean();
          assert.deepEqual(await node.sandboxes(), []);
        });

        test(`DEL of ${name} hangs: statuses and other pods do not wait, and the next try ends it`, async () => {
          const pod = await node.runPod();
          await node.injectFault(name, "DEL", "hang");
          const stop = node.cri.StopPodSandbox({ pod_sandbox_id: pod.id }, { timeoutMs: 3_000 });
          stop.catch(() => undefined);
          const group = await node.reached();
          assert.equal((await pod.status()).state, PodSandboxState.SANDBOX_NOTREADY);
          await node.clearFaults();
          const other = await node.runPod();
          await node.stopAndRemove(other.id);
          await rejectsWith(stop, "DEADLINE_EXCEEDED");
          assert.equal(await pauseRuns(pod.id), false);
          process.kill(-group, "SIGKILL");
          await node.stopAndRemove(pod.id);
          await node.assertClean();
        });
      }
    });
  }
});
