import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/shim/lib/errors.js";
import { listedSandboxes, rejectsWith, runSandbox } from "../../../fakes/pods.js";
import { hostNetworkRequest } from "../../../fakes/requests.js";
import { TestShim } from "../../../fakes/services.js";

const stop = (shim: TestShim, id: string): Promise<unknown> =>
  shim.rpcs.StopPodSandbox({ pod_sandbox_id: id }, shim.call("StopPodSandbox"));

describe("stopPodSandbox() of a sandbox that another shim made", () => {
  /** As dockershim and cri-dockerd leave one behind: a container and a checkpoint, and no record. */
  async function foreignSandbox(shim: TestShim): Promise<string> {
    const id = await runSandbox(shim);
    await shim.services.records.pods.remove(id);
    shim.services.state.model.recordChanged(id);
    assert.deepEqual(await listedSandboxes(shim), { [id]: 0 });
    return id;
  }

  test("tears its network down once, also over a restart", async () => {
    await using shim = await TestShim.start();
    const id = await foreignSandbox(shim);
    await stop(shim, id);
    await stop(shim, id);
    await using second = await shim.restart();
    await stop(second, id);
    assert.equal(shim.world.journal.names("network.tearDownPod").length, 1);
    const { network, ...record } = second.services.records.pods.get(id) ?? assert.fail("no record");
    assert.deepEqual(network, { plugin: "cni", state: "tornDown", ips: [] });
    assert.deepEqual(record, {
      ...{ version: 1, sandboxId: id, name: "web", namespace: "default", uid: "uid-1", attempt: 0 },
      ...{ phase: "stopped", runtimeHandler: "", logDirectory: "", cgroupParent: "" },
      namespaces: { network: 0, pid: 1, ipc: 0 },
    });
  });

  test("makes it NOTREADY at once, although the tear-down fails", async () => {
    await using shim = await TestShim.start();
    const id = await foreignSandbox(shim);
    shim.world.network.tearDownFailure = new ShimError("unavailable", "no such bridge");
    await rejectsWith(stop(shim, id), "unavailable");
    assert.deepEqual(await listedSandboxes(shim), { [id]: 1 });
  });

  test("leaves the network of the host alone", async () => {
    await using shim = await TestShim.start();
    const id = await runSandbox(shim, hostNetworkRequest());
    await shim.services.records.pods.remove(id);
    await stop(shim, id);
    assert.equal(shim.services.records.pods.get(id)?.network.state, "none");
    assert.deepEqual(shim.world.journal.names("network.tearDownPod"), []);
  });

  test("succeeds on a full disk", async () => {
    await using shim = await TestShim.start();
    const id = await foreignSandbox(shim);
    for (let write = 0; write < 5; write += 1)
      shim.world.journal.failNext("records.write", new ShimError("unavailable", "disk full"));
    await stop(shim, id);
    assert.equal(shim.engine.containers.get(id).state.running, false);
    assert.equal(shim.world.network.pods.size, 0);
    assert.deepEqual(await listedSandboxes(shim), { [id]: 1 });
  });

  test("leaves nothing for ever: removing the sandbox removes the record", async () => {
    await using shim = await TestShim.start();
    const id = await foreignSandbox(shim);
    await stop(shim, id);
    await shim.rpcs.RemovePodSandbox({ pod_sandbox_id: id }, shim.call());
    assert.deepEqual([...shim.services.records.pods.all()], []);
  });
});

describe("stopPodSandbox() of a pod that another network plugin set up", () => {
  const warnings = (shim: TestShim): readonly unknown[] =>
    shim.log.lines.filter(({ message }) => message.includes("network plugin")).map(({ fields }) => fields);

  test("uses the present plugin, and says so once", async () => {
    await using shim = await TestShim.start();
    const { network } = shim.world;
    const id = await runSandbox(shim);
    await shim.services.records.pods.update(id, (record) => ({
      ...record,
      network: { ...record.network, plugin: "kubenet" },
    }));
    network.tearDownFailure = new ShimError("unavailable", "not yet");
    await rejectsWith(stop(shim, id), "unavailable");
    network.tearDownFailure = undefined;
    await stop(shim, id);
    assert.equal(network.pods.size, 0);
    assert.deepEqual(warnings(shim), [{ sandboxId: id, setUpBy: "kubenet", plugin: "cni" }]);
  });

  test("says nothing when no network is left to be released", async () => {
    await using shim = await TestShim.start();
    const id = await runSandbox(shim);
    await shim.services.records.pods.update(id, (record) => ({
      ...record,
      network: { ...record.network, plugin: "kubenet", state: "tornDown" },
    }));
    await stop(shim, id);
    assert.deepEqual(warnings(shim), []);
  });
});
