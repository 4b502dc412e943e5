import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { rejectsWith, runSandbox } from "../../../fakes/pods.js";
import { containerResources, createRequest, runRequest, sandboxConfig } from "../../../fakes/requests.js";
import { shimOfEachTest, TestShim } from "../../../fakes/services.js";

const shim = shimOfEachTest();

const overhead = containerResources({ memory_limit_in_bytes: "1000" });
const resources = containerResources({ cpu_shares: "512" });

async function shown(shim: TestShim, id: string): Promise<Readonly<Record<string, unknown>>> {
  const { info } = await shim.rpcs.PodSandboxStatus({ pod_sandbox_id: id, verbose: true }, shim.call());
  return JSON.parse(info?.["info"] ?? "{}") as Record<string, unknown>;
}

describe("updatePodSandboxResources()", () => {
  test("is remembered over a restart, field by field, and asks the engine nothing", async () => {
    await using first = await TestShim.start();
    const { linux } = sandboxConfig();
    assert.ok(linux);
    const id = await runSandbox(first, runRequest({ linux: { ...linux, overhead } }));
    const before = await shown(first, id);
    assert.deepEqual([before["overhead"], before["resources"]], [overhead, null]);
    first.world.journal.clear();
    const change = { pod_sandbox_id: id, overhead: null, resources };
    assert.deepEqual(await first.rpcs.UpdatePodSandboxResources(change, first.call()), {});
    assert.deepEqual(
      first.world.journal.names().filter((name) => name.startsWith("engine.")),
      [],
    );
    await using shim = await first.restart();
    const after = await shown(shim, id);
    assert.deepEqual([after["overhead"], after["resources"]], [overhead, resources]);
  });

  test("succeeds for a sandbox of another program, which has no record", async () => {
    const id = await runSandbox(shim);
    await shim.services.records.pods.remove(id);
    const change = { pod_sandbox_id: id, overhead, resources };
    assert.deepEqual(await shim.rpcs.UpdatePodSandboxResources(change, shim.call()), {});
    assert.equal((await shown(shim, id))["resources"], undefined);
  });

  test("is notFound for unknown ids and for containers", async () => {
    const sandbox = await runSandbox(shim);
    const { container_id = "" } = await shim.rpcs.CreateContainer(createRequest(sandbox), shim.call());
    for (const id of [container_id, "f".repeat(64)]) {
      const change = { pod_sandbox_id: id, overhead, resources };
      await rejectsWith(shim.rpcs.UpdatePodSandboxResources(change, shim.call()), "notFound");
    }
  });

  test("refuses what would make the record too large to be read again", async () => {
    const id = await runSandbox(shim);
    const huge = containerResources({ unified: { "memory.high": "1".repeat(70_000) } });
    await rejectsWith(
      shim.rpcs.UpdatePodSandboxResources(
        { pod_sandbox_id: id, overhead: null, resources: huge },
        shim.call(),
      ),
      "invalid",
      /^resources: /,
    );
  });
});
