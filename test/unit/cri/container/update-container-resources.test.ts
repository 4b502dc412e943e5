import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import type { LinuxContainerResources } from "../../../../src/domain/cri.js";
import { rejectsWith } from "../../../support/refusals.js";
import { containerResources } from "../../../fakes/requests.js";
import { shimOfEachTest, TestShim } from "../../../fakes/services.js";

const shim = shimOfEachTest();

const update = (
  shim: TestShim,
  id: string,
  changes: Partial<LinuxContainerResources>,
  call = shim.call(),
) => {
  const linux = containerResources(changes);
  return shim.rpcs.UpdateContainerResources(
    { container_id: id, linux, windows: null, annotations: {} },
    call,
  );
};

async function shownResources(shim: TestShim, id: string): Promise<Readonly<Record<string, unknown>>> {
  const { status } = await shim.rpcs.ContainerStatus({ container_id: id, verbose: false }, shim.call());
  return { ...status?.resources?.linux };
}

describe("updateContainerResources()", () => {
  test("changes what the request names, keeps the rest, and shows it, events or not", async () => {
    shim.engine.events$.policy = () => [];
    const id = await shim.runContainer();
    await update(shim, id, { cpu_shares: "512", memory_limit_in_bytes: "67108864" });
    await update(shim, id, { cpu_quota: "50000", cpu_period: "100000" });
    const { cpu_shares, cpu_quota, cpu_period, memory_limit_in_bytes } = await shownResources(shim, id);
    const shown = [cpu_shares, cpu_quota, cpu_period, memory_limit_in_bytes];
    assert.deepEqual(shown, ["512", "50000", "100000", "67108864"]);
  });

  test("is refused for an engine without cgroups, which would fail with words of its own", async () => {
    await using shim = await TestShim.start({ facts: { cgroupDriver: "none" } });
    const id = await shim.runContainer();
    await rejectsWith(update(shim, id, { cpu_shares: "512" }), "unsupported", /without cgroups/);
    assert.deepEqual(shim.world.journal.names("engine.updateContainer"), []);
  });

  test("without anything to change asks the engine nothing", async () => {
    const id = await shim.runContainer();
    await update(shim, id, {});
    assert.deepEqual(shim.world.journal.names("engine.updateContainer"), []);
  });

  test("writes cgroup limits at once when the container runs, and remembers them for its next start", async () => {
    const hugepages = [{ pageSize: "2MB", limitBytes: 4_194_304n }];
    const change = { hugepage_limits: [{ page_size: "2MB", limit: "4194304" }] };
    const sandbox = await shim.runSandbox();
    const running = await shim.runContainer(sandbox, "one");
    await update(shim, running, change);
    assert.deepEqual(shim.world.host.cgroups.get(running)?.hugepages, hugepages);
    const created = await shim.createContainer(sandbox, { metadata: { name: "two", attempt: 0 } });
    await update(shim, created, change);
    assert.equal(shim.world.host.cgroups.has(created), false);
    assert.deepEqual(shim.services.records.containers.get(created)?.cgroup.hugepages, hugepages);
    assert.deepEqual((await shownResources(shim, created))["hugepage_limits"], change.hugepage_limits);
  });

  test("changes nothing when the cgroup refuses its part", async () => {
    shim.engine.events$.policy = () => [];
    const id = await shim.runContainer();
    shim.world.journal.failNext("host.applyCgroup", new ShimError("unsupported", "no hugetlb controller"));
    const change = { cpu_shares: "512", hugepage_limits: [{ page_size: "2MB", limit: "4194304" }] };
    const message = /failed to update container ".*": no hugetlb controller/;
    await rejectsWith(update(shim, id, change), "unsupported", message);
    assert.notEqual((await shownResources(shim, id))["cpu_shares"], "512");
  });

  const onCgroup2 = (): Promise<TestShim> => TestShim.start({ facts: { cgroupVersion: 2 } });
  const swap = (bytes: string) => ({ unified: { "memory.swap.max": bytes } });

  test("leaves the swap limit in force that an update by the engine overwrites", async () => {
    await using shim = await onCgroup2();
    const id = await shim.runContainer();
    const { cgroups } = shim.world.host;
    const updateByEngine = shim.engine.updateContainer.bind(shim.engine);
    shim.engine.updateContainer = async (...args) => {
      await updateByEngine(...args);
      cgroups.set(id, { unified: { "memory.swap.max": "0" }, hugepages: [] });
    };
    await update(shim, id, { memory_limit_in_bytes: "67108864", ...swap("4096") });
    assert.equal(cgroups.get(id)?.unified["memory.swap.max"], "4096");
    await update(shim, id, { cpu_shares: "512" });
    assert.equal(cgroups.get(id)?.unified["memory.swap.max"], "4096");
  });

  test("puts back what was in force, on record or not, when the engine refuses", async () => {
    await using shim = await onCgroup2();
    const id = await shim.runContainer();
    const { cgroups } = shim.world.host;
    cgroups.set(id, { unified: { "memory.high": "max", "memory.swap.max": "0" }, hugepages: [] });
    await update(shim, id, swap("4096"));
    shim.engine.failNext("updateContainer", new ShimError("invalid", "no"));
    const unified = { "memory.high": "1000", "memory.swap.max": "1" };
    await rejectsWith(update(shim, id, { cpu_shares: "512", unified }), "invalid", /no$/);
    assert.deepEqual(cgroups.get(id)?.unified, { "memory.high": "max", "memory.swap.max": "4096" });
  });

  test("reports the engine's refusal also when nothing can be put back", async () => {
    await using shim = await onCgroup2();
    const id = await shim.runContainer();
    await update(shim, id, swap("4096"));
    shim.engine.updateContainer = () => {
      shim.world.journal.failNext("host.applyCgroup", new ShimError("unknown", "no undo"));
      return Promise.reject(new ShimError("invalid", "refused by the engine"));
    };
    await rejectsWith(update(shim, id, { cpu_shares: "512", ...swap("1") }), "invalid", /by the engine$/);
  });

  test("puts back under a deadline of its own when the caller leaves", async () => {
    await using shim = await onCgroup2();
    const id = await shim.runContainer();
    await update(shim, id, swap("4096"));
    const call = shim.call();
    shim.engine.updateContainer = () => {
      call.abort(new ShimError("timeout", "the caller has left"));
      return Promise.reject(new ShimError("timeout", "the caller has left"));
    };
    await rejectsWith(update(shim, id, { cpu_shares: "512", ...swap("1") }, call), "timeout");
    assert.equal(shim.world.host.cgroups.get(id)?.unified["memory.swap.max"], "4096");
  });

  test("refuses a container that has ended, and unknown ids", async () => {
    const sandbox = await shim.runSandbox();
    const id = await shim.runContainer(sandbox);
    await shim.stopContainer(id);
    await rejectsWith(update(shim, id, { cpu_shares: "512" }), "precondition", /it is exited/);
    for (const other of [sandbox, "f".repeat(64)]) await rejectsWith(update(shim, other, {}), "notFound");
  });
});
