import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import {
  listedContainers,
  listedSandboxes,
  rejectsWith,
  runContainer,
  runSandbox,
} from "../../../fakes/pods.js";
import { shimOfEachTest, type TestShim } from "../../../fakes/services.js";

const shim = shimOfEachTest();

const remove = (shim: TestShim, id: string): Promise<unknown> =>
  shim.rpcs.RemovePodSandbox({ pod_sandbox_id: id }, shim.call("RemovePodSandbox"));

describe("removePodSandbox()", () => {
  test("of a stopped sandbox names the pod in the log line", async () => {
    const id = await runSandbox(shim);
    await shim.rpcs.StopPodSandbox({ pod_sandbox_id: id }, shim.call("StopPodSandbox"));
    const call = shim.call("RemovePodSandbox");
    await shim.rpcs.RemovePodSandbox({ pod_sandbox_id: id }, call);
    assert.equal(call.pod, "default/web");
  });

  test("stops a running sandbox first, removes checkpoint and record last, and leaves nothing", async () => {
    const { engine, network, checkpoints, host } = shim.world;
    const id = await runSandbox(shim);
    await runContainer(shim, id, "one");
    await runContainer(shim, id, "two");
    shim.world.journal.clear();
    await remove(shim, id);
    const steps = shim.world.journal.names().filter((step) => /remove|tearDown/i.test(step));
    assert.equal(steps[0], "network.tearDownPod");
    assert.deepEqual(steps.slice(-2).sort(), ["checkpoints.remove", "records.remove"]);
    assert.deepEqual(engine.containers.ids, []);
    assert.deepEqual([network.pods.size, checkpoints.stored.size, host.links.size], [0, 0, 0]);
    assert.deepEqual([...shim.services.records.pods.all()], []);
    assert.deepEqual(await listedSandboxes(shim), {});
    assert.deepEqual(await listedContainers(shim), {});
  });

  for (const [step, kept] of [
    ["network.tearDownPod", true],
    ["engine.stopContainer", true],
    ["engine.removeContainer", true],
    ["checkpoints.remove", false],
    ["records.remove", false],
  ] as const) {
    test(`that fails in ${step} can be repeated`, async () => {
      const { journal, engine, network, checkpoints } = shim.world;
      const id = await runSandbox(shim);
      journal.failNext(step, new ShimError("unknown", "planned fault"));
      await rejectsWith(remove(shim, id), "unknown", /planned fault/);
      assert.equal(engine.containers.ids.length > 0, kept);
      await remove(shim, id);
      assert.deepEqual(engine.containers.ids, []);
      assert.deepEqual([network.pods.size, checkpoints.stored.size], [0, 0]);
      assert.deepEqual([...shim.services.records.pods.all()], []);
    });
  }

  test("keeps the sandbox when one of its containers cannot be removed, and removes the others", async () => {
    const { engine } = shim.world;
    const id = await runSandbox(shim);
    await runContainer(shim, id, "one");
    await runContainer(shim, id, "two");
    engine.failNext("removeContainer", new ShimError("unknown", "device busy"));
    await rejectsWith(remove(shim, id), "unknown", /device busy/);
    assert.equal(engine.containers.ids.length, 2);
    assert.ok(engine.containers.find(id));
    await remove(shim, id);
    assert.deepEqual(engine.containers.ids, []);
  });

  test("removes a sandbox that exists only as a checkpoint", async () => {
    const id = "e".repeat(64);
    shim.world.checkpoints.stored.set(id, { version: "v1", namespace: "ns", name: "old", data: {} });
    assert.deepEqual(await listedSandboxes(shim), { [id]: 1 });
    await remove(shim, id);
    assert.deepEqual(await listedSandboxes(shim), {});
  });

  test("concurrently with itself and with stop succeeds, and releases the network once", async () => {
    const id = await runSandbox(shim);
    await runContainer(shim, id);
    const stop = shim.rpcs.StopPodSandbox({ pod_sandbox_id: id }, shim.call());
    await Promise.all([stop, remove(shim, id), remove(shim, id)]);
    assert.deepEqual(shim.engine.containers.ids, []);
    // The last call finds neither record nor checkpoint, and cannot know that nothing is left.
    assert.deepEqual(shim.world.network.pods.size, 0);
  });
});
