import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import { rejectsWith } from "../../../support/refusals.js";
import { shimOfEachTest, TestShim } from "../../../fakes/services.js";
import { until } from "../../../fakes/turns.js";

const shim = shimOfEachTest();

describe("stopContainer()", () => {
  test("stops with the grace period of the request, and shows the container as ended", async () => {
    shim.engine.events$.policy = () => [];
    const id = await shim.runContainer();
    await shim.stopContainer(id, "42");
    assert.deepEqual(shim.world.journal.argsOf("engine.stopContainer"), [[id, 42]]);
    assert.deepEqual(await shim.listedContainers(), { [id]: 2 });
  });

  test("succeeds for a container that was never started, an unknown id, and that of a sandbox, which runs on", async () => {
    const sandbox = await shim.runSandbox();
    const created = await shim.createContainer(sandbox);
    await shim.stopContainer(sandbox);
    assert.equal(shim.engine.containers.get(sandbox).state.running, true);
    await shim.stopContainer(created);
    await shim.stopContainer("f".repeat(64));
    assert.deepEqual(await shim.listedContainers(), { [created]: 0 });
  });

  test("lets a second call with less grace through while the first waits", async () => {
    const id = await shim.runContainer();
    let longStopHangs = true;
    shim.engine.hangs = (verb, [, grace]) => verb === "stopContainer" && grace === 600 && longStopHangs;
    const first = shim.stopContainer(id, "600");
    await until("it is under way", () => shim.world.journal.names("engine.stopContainer").length === 1);
    await shim.stopContainer(id, "0");
    assert.equal(shim.engine.containers.get(id).state.exitCode, 137);
    longStopHangs = false;
    shim.engine.up();
    await first;
  });

  test("is an error when the engine cannot stop it", async () => {
    const id = await shim.runContainer();
    const said = "tried to kill container, but did not receive an exit event";
    shim.engine.failNext("stopContainer", new ShimError("unknown", said));
    await rejectsWith(shim.stopContainer(id), "unknown", /did not receive an exit event/);
  });
});

describe("removeContainer()", () => {
  test("removes a container, running or not, with its log link and its record, and no sandbox", async () => {
    shim.engine.events$.policy = () => [];
    const sandbox = await shim.runSandbox();
    const running = await shim.runContainer(sandbox, "one");
    const ended = await shim.runContainer(sandbox, "two");
    await shim.stopContainer(ended);
    await shim.services.records.containers.merge(running, { unified: {}, hugepages: [] });
    for (const id of [running, ended, sandbox, "f".repeat(64)]) await shim.removeContainer(id);
    assert.deepEqual(shim.engine.containers.ids, [sandbox]);
    assert.deepEqual(await shim.listedContainers(), {});
    assert.deepEqual([shim.world.host.links.size, [...shim.services.records.containers.all()]], [0, []]);
  });

  test("looks for no link where this program writes the log", async () => {
    for (const logFormat of ["cri", "docker"] as const) {
      await using shim = await TestShim.start({ logFormat });
      const id = await shim.createContainer(await shim.runSandbox());
      await shim.removeContainer(id);
      const looks = shim.world.journal.names("host.unlinkLog").length;
      assert.equal(looks > 0, logFormat === "docker", logFormat);
    }
  });

  test("whose log link cannot be removed is an error, and leaves nothing else behind", async () => {
    shim.engine.events$.policy = () => [];
    const id = await shim.runContainer();
    await shim.services.records.containers.merge(id, { unified: {}, hugepages: [] });
    // By the call, and by the removal of the container from the read model.
    for (let count = 0; count < 2; count++)
      shim.world.journal.failNext("host.unlinkLog", new ShimError("unavailable", "read-only file system"));
    await rejectsWith(shim.removeContainer(id), "unavailable", /read-only/);
    assert.deepEqual(await shim.listedContainers(), {});
    assert.deepEqual([...shim.services.records.containers.all()], []);
  });

  test("that fails keeps the log reachable, and can be repeated", async () => {
    const id = await shim.runContainer();
    shim.engine.failNext("removeContainer", new ShimError("unknown", "device busy"));
    await rejectsWith(shim.removeContainer(id), "unknown", /device busy/);
    assert.equal(shim.world.host.links.size, 1);
    await shim.removeContainer(id);
    assert.equal(shim.world.host.links.size, 0);
  });
});
