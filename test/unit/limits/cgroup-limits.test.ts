import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { ShimError } from "../../../src/lib/errors.js";
import { ociRuntimeName } from "../../../src/domain/oci-changes.js";
import { nodeFacts } from "../../fakes/node-facts.js";
import { containerResources, hugepages } from "../../fakes/requests.js";
import { TestShim } from "../../fakes/services.js";
import { turns, until, withResolvers } from "../../fakes/turns.js";

const limits = [{ pageSize: "2MB", limitBytes: 4_194_304n }];

function hasLimits(shim: TestShim, id: string): boolean {
  return shim.world.host.cgroups.get(id)?.hugepages[0]?.limitBytes === limits[0]?.limitBytes;
}

function written(shim: TestShim): number {
  return shim.world.journal.names("host.applyCgroup").length;
}

/** A container that another program has started while a call holds its lock, until `end`. */
async function startedWhileLocked(shim: TestShim) {
  const id = await shim.createContainer(await shim.runSandbox(), hugepages);
  const { promise: ended, resolve: end } = withResolvers();
  const held = shim.services.locks.containers.run(id, shim.call().signal, () => ended);
  shim.engine.containers.start(id);
  await until("it is seen", () => shim.services.state.model.snapshot(id)?.state.running === true);
  return { id, end: () => (end(), held) };
}

describe("limits that Docker cannot set", () => {
  test("are given to a container that was started by a shim that did not live to set them", async () => {
    await using first = await TestShim.start();
    const id = await first.createContainer(await first.runSandbox(), hugepages);
    first.engine.events$.policy = () => [];
    first.engine.containers.start(id);
    assert.equal(hasLimits(first, id), false);
    await using second = await first.restart();
    await until("it has them", () => hasLimits(second, id));
    assert.equal(second.engine.containers.get(id).state.running, true);
  });

  test("are applied after a start by another program, and again after a restart", async () => {
    await using shim = await TestShim.start();
    const id = await shim.createContainer(await shim.runSandbox(), hugepages);
    shim.engine.containers.start(id);
    await until("it has them", () => hasLimits(shim, id));
    shim.world.host.cgroups.clear(); // A cgroup lives as long as its container runs.
    shim.engine.containers.restart(id);
    await until("it has them again", () => hasLimits(shim, id));
  });

  test("wait for the container's lock, longer than their own timeout", async () => {
    const cleanUpTimeoutMs = 20;
    await using shim = await TestShim.start({ settings: { cleanUpTimeoutMs } });
    const { id, end } = await startedWhileLocked(shim);
    for (let count = 0; count < 3; count++) await shim.sync.refresh(id);
    await pause(2 * cleanUpTimeoutMs);
    await end();
    await until("it has them", () => hasLimits(shim, id));
    assert.equal(written(shim), 1);
    assert.ok(!shim.log.lines.some(({ level }) => level === "error"));
  });

  test("are waited with for as long as the shim runs, and not longer", async () => {
    const shim = await TestShim.start();
    const { end } = await startedWhileLocked(shim);
    await shim[Symbol.asyncDispose]();
    await end();
    assert.equal(written(shim), 0);
  });

  test("are written once by StartContainer, and not again however often the container is inspected", async () => {
    await using shim = await TestShim.start();
    const id = await shim.runContainer(undefined, "main", hugepages);
    for (let count = 0; count < 3; count++) await shim.sync.refresh(id);
    await shim.services.locks.containers.run(id, AbortSignal.timeout(5_000), () => Promise.resolve());
    assert.equal(written(shim), 1);
  });

  test("that cannot be set do not end a container that runs: one error, and another try at the next start", async () => {
    await using first = await TestShim.start();
    const id = await first.runContainer(undefined, "main", hugepages);
    first.world.host.cgroups.clear();
    first.world.journal.failNext("host.applyCgroup", new ShimError("unavailable", "read-only file system"));
    await using second = await first.restart();
    const errors = (): readonly unknown[] =>
      second.log.lines
        .filter(({ message }) => message === "cannot apply the cgroup limits of a running container")
        .map(({ fields }) => fields["containerId"]);
    await until("it is logged", () => errors().length > 0);
    await second.sync.refresh(id);
    assert.deepEqual(errors(), [id]);
    assert.equal(second.engine.containers.get(id).state.running, true);
    await using third = await second.restart();
    await until("it has them", () => hasLimits(third, id));
  });

  test("of a cgroup out of reach are no error where the OCI runtime has set them before the first instruction", async () => {
    const [runc] = nodeFacts().runtimes;
    assert.ok(runc);
    const runtimes = [runc, { ...runc, name: ociRuntimeName }];
    await using shim = await TestShim.start({ facts: { cgroupVersion: 2, runtimes } });
    shim.engine.startFailure = shim.world.ociRuntimeServer.startFailure;
    const sandbox = await shim.runSandbox();
    const hugepage_limits = [{ page_size: "2MB", limit: "1" }];
    const resources = containerResources({ unified: { "memory.high": "1" }, hugepage_limits });
    const id = await shim.createContainer(sandbox, { linux: { security_context: null, resources } });
    shim.engine.startFailure = () => undefined;
    shim.world.host.local = false;
    await shim.rpcs.StartContainer({ container_id: id }, shim.call());
    await shim.sync.refresh(id);
    await turns(50);
    assert.equal(written(shim), 0);
    assert.deepEqual(
      shim.log.lines.filter(({ level }) => level === "error"),
      [],
    );
  });

  test("are not written for containers that have none on record", async () => {
    await using first = await TestShim.start();
    await first.runContainer();
    await using second = await first.restart();
    assert.equal(written(second), 0);
  });
});
