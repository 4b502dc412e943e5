import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { TestShim } from "../../fakes/services.js";

/** One step against a pod with one container. */
type Action = (shim: TestShim, sandbox: string, container: string) => unknown;

const actions: Readonly<Record<string, Action>> = {
  StopContainer: (shim, _, id) => shim.stopContainer(id),
  RemoveContainer: (shim, _, id) => shim.removeContainer(id),
  StopPodSandbox: (shim, id) => shim.stopSandbox(id),
  RemovePodSandbox: (shim, id) => shim.removeSandbox(id),
};

/** What the engine does on its own before the second call. */
const accidents: Readonly<Record<string, Action>> = {
  "nothing happened": () => undefined,
  "the engine lost the container": (shim, _, id) => lose(shim, id),
  "the engine lost the sandbox": (shim, id) => lose(shim, id),
  "the engine lost both": (shim, ...ids) => lose(shim, ...ids),
  "both ended": (shim, sandbox, container) => {
    for (const id of [sandbox, container]) {
      if (shim.engine.containers.find(id)?.state.running === true) shim.engine.containers.exit(id, 1);
    }
  },
};

function lose({ engine: { containers } }: TestShim, ...ids: readonly string[]): unknown {
  return ids.filter((id) => containers.find(id) !== undefined).map((id) => containers.lose(id));
}

describe("stop and remove, in any order, always succeed", () => {
  for (const [accident, happen] of Object.entries(accidents)) {
    for (const [first, doFirst] of Object.entries(actions)) {
      for (const [second, doSecond] of Object.entries(actions)) {
        test(`${first}, ${accident}, ${second}, then all of them`, async () => {
          await using shim = await TestShim.start();
          const sandbox = await shim.runSandbox();
          const container = await shim.runContainer(sandbox);
          // Without events the shim knows only the answers to its own requests.
          shim.engine.events$.policy = () => [];
          await doFirst(shim, sandbox, container);
          happen(shim, sandbox, container);
          await doSecond(shim, sandbox, container);
          for (const action of Object.values(actions)) await action(shim, sandbox, container);
          assert.deepEqual(shim.engine.containers.ids, []);
          assert.deepEqual([await shim.listedSandboxes(), await shim.listedContainers()], [{}, {}]);
          assert.deepEqual([shim.world.network.pods.size, shim.world.checkpoints.stored.size], [0, 0]);
          assert.deepEqual([...shim.services.records.pods.all()], []);
          // Docker alone has the log path of a lost container; the kubelet removes the pod's log directory.
          if (!accident.includes("lost")) assert.equal(shim.world.host.links.size, 0);
        });
      }
    }
  }
});
