import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/shim/lib/errors.js";
import {
  createContainer,
  listedContainers,
  runContainer,
  runSandbox,
  startContainer,
} from "../../../fakes/pods.js";
import { TestShim } from "../../../fakes/services.js";
import { turns, until } from "../../../fakes/turns.js";

const stop = (shim: TestShim, id: string): Promise<unknown> =>
  shim.rpcs.StopPodSandbox({ pod_sandbox_id: id }, shim.call("StopPodSandbox"));

describe("stopPodSandbox() against other calls", () => {
  test("waits for a start that is under way, and leaves no container running", async () => {
    await using shim = await TestShim.start();
    const id = await runSandbox(shim);
    const container = await createContainer(shim, id);
    let isHeld = true;
    shim.engine.hangs = (verb, [one]) => verb === "startContainer" && one === container && isHeld;
    const start = startContainer(shim, container);
    const started = start.catch(() => undefined);
    await until("the start is under way", () => shim.services.locks.containers.size > 0);
    await until("the engine has it", () => shim.world.journal.argsOf("engine.startContainer").length === 2);
    const stopped = stop(shim, id);
    await until("it is not ready", () => shim.services.state.model.sandbox(id)?.ready === false);
    await turns(20);
    assert.deepEqual(shim.world.journal.names("network.tearDownPod"), []);
    isHeld = false;
    shim.engine.up();
    await Promise.all([started, stopped]);
    assert.equal(shim.engine.containers.get(container).state.running, false);
    assert.equal((await listedContainers(shim))[container], 2);
  });

  test("stops a container that runs although the read model does not know it", async () => {
    await using shim = await TestShim.start();
    const id = await runSandbox(shim);
    shim.engine.events$.policy = () => [];
    const container = await createContainer(shim, id);
    shim.engine.containers.start(container);
    await stop(shim, id);
    assert.equal(shim.engine.containers.get(container).state.running, false);
  });

  test("asks the engine to stop no container that was never started, or has ended", async () => {
    await using shim = await TestShim.start();
    const id = await runSandbox(shim);
    const created = await createContainer(shim, id);
    shim.engine.containers.exit(await runContainer(shim, id, "ended"), 0);
    await stop(shim, id);
    assert.deepEqual(shim.world.journal.argsOf("engine.stopContainer"), [[id, 10]]);
    assert.equal(shim.engine.containers.get(created).state.status, "created");
  });

  test("looks once more for containers that were started while nobody could be told of the stop", async () => {
    await using shim = await TestShim.start();
    const { journal } = shim.world;
    const id = await runSandbox(shim);
    const container = await createContainer(shim, id);
    journal.failNext("records.write", new ShimError("unavailable", "disk full"));
    journal.afterStep = ({ verb }) => {
      if (verb !== "tearDownPod") return;
      // A StartContainer that came after the first look, and found the sandbox ready.
      shim.engine.containers.start(container);
    };
    await stop(shim, id);
    assert.equal(shim.engine.containers.get(container).state.running, false);
  });

  test("reads a sandbox anew whose state may be outdated, before it goes by its process id", async () => {
    await using shim = await TestShim.start();
    const id = await runSandbox(shim);
    const { model } = shim.services.state;
    shim.engine.events$.policy = () => [];
    shim.engine.containers.restart(id);
    model.failed(id);
    await stop(shim, id);
    const [[request] = []] = shim.world.journal.argsOf("network.tearDownPod");
    const { pid: _pid, ...state } = shim.engine.containers.get(id).state;
    assert.equal(state.running, false);
    assert.equal((request as { netns: string }).netns, "/proc/1002/ns/net");
  });
});
