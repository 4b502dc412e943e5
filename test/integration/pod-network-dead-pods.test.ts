/** Pods that end in other ways than by StopPodSandbox, and nodes that have lost something: Stop and Remove leave nothing. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { PodSandboxState } from "../../src/domain/cri.js";
import { removeContainer } from "../support/docker.js";
import { withOwnEngine } from "../support/isolated-engine.js";
import type { Pod } from "../support/pod.js";
import { long } from "../support/test-bed.js";
import { until } from "../support/wait.js";
import { killPause, NetworkNode, type PluginName } from "./pod-network-support.js";

const plugins: readonly PluginName[] = ["cni", "kubenet"];

await withOwnEngine(import.meta.url, [], (engine) => {
  for (const plugin of plugins) {
    describe(plugin, () => {
      const node = NetworkNode.ofSuite(plugin);
      // What an engine does when it ends or does not answer, and the record of a tear-down, are the same for both.
      const ofEngine = { skip: !long && plugin !== "cni" && "only with --long" };
      let pod: Pod;

      async function withoutShim(act: () => Promise<unknown>): Promise<void> {
        await node.shim.kill();
        await act();
        await node.start();
      }

      const ends: readonly (readonly [string, (pods: readonly [Pod, Pod]) => Promise<void>])[] = [
        [
          "whose pause containers were killed and removed",
          ([one, two]) => Promise.all([killPause(one.id), removeContainer(two.id)]).then(() => undefined),
        ],
        [
          "whose pause containers were killed and removed while no shim ran",
          ([one, two]) => withoutShim(() => Promise.all([killPause(one.id), removeContainer(two.id)])),
        ],
        [
          "whose pause containers were killed, and the first DEL after that failed",
          async (pods) => {
            for (const { id } of pods) await killPause(id);
            await node.injectFault("host-local", "DEL", "once");
            await assert.rejects(pods[0].stop(), /DEL for pod "dockershim-test\//);
          },
        ],
      ];
      for (const [index, [what, end]] of ends.entries()) {
        // Without `--long` kubenet, whose plugins are those of cni, has the first.
        if (!long && plugin === "kubenet" && index > 0) continue;
        test(`pods ${what}`, async () => {
          const pods = [await node.runPod(), await node.runPod()] as const;
          await node.assertHeld();
          await end(pods);
          await until("the sandboxes not to be ready", async () =>
            (await node.sandboxes()).every(({ state }) => state === PodSandboxState.SANDBOX_NOTREADY),
          );
          for (const { id } of pods) await node.stopAndRemove(id);
          await node.assertClean();
        });
      }

      test("the engine was ended by SIGTERM and started again", ofEngine, async () => {
        const pods = [await node.runPod(), await node.runPod()];
        await engine.end("SIGTERM");
        await engine.start();
        await until("the sandboxes not to be ready", async () => {
          const states = await node.sandboxes().catch(() => []);
          const dead = states.filter(({ state }) => state === PodSandboxState.SANDBOX_NOTREADY);
          return states.length === pods.length && dead.length === pods.length;
        });
        for (const { id } of pods) await node.stopAndRemove(id);
        await node.assertClean();
      });

      test("the engine and the shim died, and were started again", ofEngine, async () => {
        const pods = [await node.runPod(), await node.runPod()];
        await withoutShim(async () => {
          await engine.end("SIGKILL");
          await engine.start();
        });
        for (const { id } of pods) await node.stopAndRemove(id);
        await node.assertClean();
      });

      test(
        "a pod that was torn down is not torn down again by a shim that starts, nor is one that runs",
        ofEngine,
        async () => {
          pod = await node.runPod();
          const { network } = await pod.status();
          const other = await node.runPod();
          await other.stop();
          await node.restart();
          const { status } = await node.cri.PodSandboxStatus({ pod_sandbox_id: pod.id });
          assert.deepEqual(status?.network, network);
          await node.assertHeld();
          for (const { id } of [pod, other]) await node.stopAndRemove(id);
          await node.assertClean();
        },
      );

      // kubenet's is in its flags.
      test("the configuration was deleted between ADD and DEL", { skip: plugin !== "cni" }, async () => {
        pod = await node.runPod();
        await node.removeConfiguration();
        const problem = await until("the network not to be ready", () => node.networkProblem());
        assert.match(problem, /^NetworkPluginNotReady: .*no networks found in/);
        await node.stopAndRemove(pod.id);
        await node.assertClean();
        await node.configure();
        await until("the network to be ready again", async () => (await node.networkProblem()) === undefined);
      });

      test("the configuration was deleted between ADD and DEL, and the shim restarted", async () => {
        pod = await node.runPod();
        const killed = await node.runPod();
        if (plugin === "cni") {
          await node.removeConfiguration();
          await node.restart();
        } else await node.restart({ flags: node.flags.filter((flag) => !flag.startsWith("--pod-cidr")) });
        assert.notEqual(await node.networkProblem(), undefined);
        await killPause(killed.id);
        await node.stopAndRemove(pod.id);
        await node.stopAndRemove(killed.id);
        await node.assertClean();
        await node.configure();
        await node.restart();
        assert.equal(await node.networkProblem(), undefined);
      });
    });
  }
});
