import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import {
  createContainer,
  listedContainers,
  rejectsWith,
  runContainer,
  runSandbox,
} from "../../../fakes/pods.js";
import { shimOfEachTest, type TestShim } from "../../../fakes/services.js";
import { until } from "../../../fakes/turns.js";

const shim = shimOfEachTest();

const stop = (shim: TestShim, id: string, timeout = "10"): Promise<unknown> =>
  shim.rpcs.StopContainer({ container_id: id, timeout }, shim.call());
const remove = (shim: TestShim, id: string): Promise<unknown> =>
  shim.rpcs.RemoveContainer({ container_id: id }, shim.call());

describe("stopContainer()", () => {
  test("stops with the grace period of the request, and shows the container as ended", async () => {
    shim.engine.events$.policy = () => [];
    const id = await runContainer(shim, await runSandbox(shim));
    await stop(shim, id, "42");
    assert.deepEqual(shim.world.journal.argsOf("engine.stopContainer"), [[id, 42]]);
    assert.deepEqual(await listedContainers(shim), { [id]: 2 });
  });

  test("succeeds for a container that was never started, and for an unknown id", async () => {
    const created = await createContainer(shim, await runSandbox(shim));
    await stop(shim, created);
    await stop(shim, "f".repeat(64));
    assert.deepEqual(await listedContainers(shim), { [created]: 0 });
  });

  test("never stops a sandbox", async () => {
    const sandbox = await runSandbox(shim);
    await stop(shim, sandbox);
    assert.equal(shim.engine.containers.get(sandbox).state.running, true);
  });

  test("lets a second call with less grace through while the first waits", async () => {
    const id = await runContainer(shim, await runSandbox(shim));
    let longStopHangs = true;
    shim.engine.hangs = (verb, [, grace]) => verb === "stopContainer" && grace === 600 && longStopHangs;
    const first = stop(shim, id, "600");
    await until(
      "the first is under way",
      () => shim.world.journal.names("engine.stopContainer").length === 1,
    );
    await stop(shim, id, "0");
    assert.equal(shim.engine.containers.get(id).state.exitCode, 137);
    longStopHangs = false;
    shim.engine.up();
    await first;
  });

  test("is an error when the engine cannot stop it", async () => {
    const id = await runContainer(shim, await runSandbox(shim));
    shim.engine.failNext(
      "stopContainer",
      new ShimError("unknown", "tried to kill container, but did not receive an exit event"),
    );
    await rejectsWith(stop(shim, id), "unknown", /did not receive an exit event/);
  });
});

describe("removeContainer()", () => {
  test("removes a container, running or not, with its log link and its record", async () => {
    shim.engine.events$.policy = () => [];
    const sandbox = await runSandbox(shim);
    const [running, ended] = [
      await runContainer(shim, sandbox, "one"),
      await runContainer(shim, sandbox, "two"),
    ];
    await stop(shim, ended);
    await shim.services.records.containers.merge(running, { unified: {}, hugepages: [] });
    await remove(shim, running);
    await remove(shim, ended);
    assert.deepEqual(shim.engine.containers.ids, [sandbox]);
    assert.deepEqual(await listedContainers(shim), {});
    assert.deepEqual([shim.world.host.links.size, [...shim.services.records.containers.all()]], [0, []]);
  });

  test("succeeds for an unknown id and that of a sandbox, which stays", async () => {
    const sandbox = await runSandbox(shim);
    for (const other of ["f".repeat(64), sandbox]) await remove(shim, other);
    assert.deepEqual(shim.engine.containers.ids, [sandbox]);
  });

  test("whose log link cannot be removed is an error, and leaves nothing else behind", async () => {
    shim.engine.events$.policy = () => [];
    const id = await runContainer(shim, await runSandbox(shim));
    await shim.services.records.containers.merge(id, { unified: {}, hugepages: [] });
    // By the call, and by the removal of the container from the read model.
    for (let count = 0; count < 2; count++)
      shim.world.journal.failNext("host.unlinkLog", new ShimError("unavailable", "read-only file system"));
    await rejectsWith(remove(shim, id), "unavailable", /read-only/);
    assert.deepEqual(await listedContainers(shim), {});
    assert.deepEqual([...shim.services.records.containers.all()], []);
  });

  test("has its record and its log link removed also when another program removed it", async () => {
    const id = await runContainer(shim, await runSandbox(shim));
    await shim.services.records.containers.merge(id, { unified: {}, hugepages: [] });
    shim.engine.containers.remove(id, { force: true });
    await until("it is known", () => !shim.services.state.model.has(id));
    assert.deepEqual([...shim.services.records.containers.all()], []);
    assert.deepEqual([...shim.world.host.links], []);
  });

  test("that fails keeps the log reachable, and can be repeated", async () => {
    const id = await runContainer(shim, await runSandbox(shim));
    shim.engine.failNext("removeContainer", new ShimError("unknown", "device busy"));
    await rejectsWith(remove(shim, id), "unknown", /device busy/);
    assert.equal(shim.world.host.links.size, 1);
    await remove(shim, id);
    assert.equal(shim.world.host.links.size, 0);
  });
});
