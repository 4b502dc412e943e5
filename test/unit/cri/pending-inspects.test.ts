/** Containers and sandboxes that the engine lists but cannot describe: they are not gone. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../src/lib/errors.js";
import { repairAfterStart } from "../../../src/shim/recovery/repair.js";
import { rejectsWith } from "../../support/refusals.js";
import { TestShim } from "../../fakes/services.js";

interface Pod {
  readonly shim: TestShim;
  readonly sandbox: string;
  readonly container: string;
}

const tooSlow = new ShimError("timeout", "inspect container: not finished after 10s");

/** A pod whose inspects all fail since the shim began again. */
async function pendingPod(earlier: TestShim, failure: Error = tooSlow): Promise<Pod> {
  const sandbox = await earlier.runSandbox();
  const container = await earlier.runContainer(sandbox);
  earlier.engine.inspectFailure = (id) => (id === sandbox || id === container ? failure : undefined);
  const shim = await earlier.restart();
  shim.world.journal.clear();
  return { shim, sandbox, container };
}

const calls: Readonly<Record<string, (shim: TestShim, id: string) => Promise<unknown>>> = {
  StopPodSandbox: (shim, id) => shim.stopSandbox(id),
  RemovePodSandbox: (shim, id) => shim.removeSandbox(id),
  PodSandboxStatus: (shim, id) =>
    shim.rpcs.PodSandboxStatus({ pod_sandbox_id: id, verbose: false }, shim.call()),
  StopContainer: (shim, id) => shim.stopContainer(id),
  RemoveContainer: (shim, id) => shim.removeContainer(id),
  ContainerStatus: (shim, id) => shim.rpcs.ContainerStatus({ container_id: id, verbose: false }, shim.call()),
};
const doIt = (name: string, { shim, sandbox, container }: Pod): Promise<unknown> =>
  calls[name]?.(shim, name.includes("Pod") ? sandbox : container) ?? assert.fail(name);
const changes = ["stopContainer", "removeContainer", "tearDownPod", "remove", "unlinkLog"];

describe("what the engine lists but cannot describe", () => {
  test("is shown in lists as the engine's list has it", async () => {
    await using earlier = await TestShim.start();
    const { shim, sandbox, container } = await pendingPod(earlier);
    await using _shim = shim;
    assert.deepEqual(await shim.listedSandboxes(), { [sandbox]: 0 });
    assert.deepEqual(await shim.listedContainers(), { [container]: 1 });
    const filter = { id: sandbox.slice(0, 9), state: { state: 0 }, label_selector: { app: "web" } } as const;
    const items = await shim.rpcs.ListPodSandbox({ filter }, shim.call());
    assert.deepEqual(items[0]?.metadata, { name: "web", namespace: "default", uid: "uid-1", attempt: 0 });
    const inSandbox = { id: "", state: { state: 1 }, pod_sandbox_id: sandbox, label_selector: {} } as const;
    const containers = await shim.rpcs.ListContainers({ filter: inSandbox }, shim.call());
    assert.deepEqual(containers[0]?.metadata, { name: "main", attempt: 0 });
  });

  for (const [name, call] of Object.entries(calls)) {
    test(`makes ${name} fail, which changes nothing, by its id and a prefix`, async () => {
      await using earlier = await TestShim.start();
      const pod = await pendingPod(earlier);
      await using shim = pod.shim;
      const id = name.includes("Pod") ? pod.sandbox : pod.container;
      for (const one of [id, id.slice(0, 12)])
        await rejectsWith(call(shim, one), "timeout", /inspect container/);
      const found = shim.world.journal.steps.filter(({ verb }) => changes.includes(verb));
      assert.deepEqual(found, []);
      assert.equal(shim.engine.containers.get(pod.sandbox).state.running, true);
      assert.equal(shim.world.checkpoints.stored.size, 1);
      assert.equal([...shim.services.records.pods.all()].length, 1);
    });

    test(`lets ${name} do its work as soon as it can be described`, async () => {
      await using earlier = await TestShim.start();
      const pod = await pendingPod(earlier);
      await using shim = pod.shim;
      shim.engine.inspectFailure = () => undefined;
      await doIt(name, pod);
      const { containers } = shim.engine;
      const states = [pod.sandbox, pod.container].map((id) => containers.find(id)?.state.status);
      const expected: Readonly<Record<string, readonly unknown[]>> = {
        StopPodSandbox: ["exited", "exited"],
        RemovePodSandbox: [undefined, undefined],
        StopContainer: ["running", "exited"],
        RemoveContainer: ["running", undefined],
      };
      assert.deepEqual(states, expected[name] ?? ["running", "running"]);
    });
  }

  test("makes statuses fail unavailable, whatever keeps the engine from describing it", async () => {
    await using earlier = await TestShim.start();
    const pod = await pendingPod(earlier, new ShimError("notFound", "no such layer"));
    await using _shim = pod.shim;
    for (const name of ["PodSandboxStatus", "ContainerStatus"])
      await rejectsWith(doIt(name, pod), "unavailable", /no such layer/);
  });

  test("keeps its records, also when no list had it", async () => {
    await using earlier = await TestShim.start();
    const sandbox = await earlier.runSandbox();
    const container = await earlier.runContainer(sandbox);
    await earlier.services.records.containers.merge(container, { unified: {}, hugepages: [] });
    const { pods: before } = earlier.services.records;
    await before.update(sandbox, (one) => ({ ...one, network: { ...one.network, state: "tornDown" } }));
    earlier.world.checkpoints.stored.clear();
    earlier.engine.inspectFailure = () => tooSlow;
    await using listed = await earlier.restart();
    await repairAfterStart(listed.services);
    listed.services.state.model.delete(sandbox);
    listed.services.state.model.delete(container);
    await repairAfterStart(listed.services);
    const { pods, containers } = listed.services.records;
    assert.deepEqual([[...pods.all()].length, [...containers.all()].length], [1, 1]);
  });

  test("gets its log linked by the repair when it can be described late", async () => {
    await using earlier = await TestShim.start();
    const { shim, container } = await pendingPod(earlier);
    await using _shim = shim;
    shim.world.host.links.clear();
    shim.engine.inspectFailure = () => undefined;
    await repairAfterStart(shim.services);
    assert.deepEqual([...shim.world.host.links.values()], [container]);
  });
});

describe("what no list has had yet", () => {
  test("is asked of the engine before it counts as gone", async () => {
    await using shim = await TestShim.start();
    const sandbox = await shim.runSandbox();
    const container = await shim.runContainer(sandbox);
    shim.engine.events$.policy = () => [];
    shim.services.state.model.delete(container);
    await shim.stopContainer(container);
    assert.equal(shim.engine.containers.get(container).state.running, false);
    shim.services.state.model.delete(sandbox);
    await shim.stopSandbox(sandbox);
    assert.equal(shim.engine.containers.get(sandbox).state.running, false);
  });

  test("makes stop and remove fail while the engine cannot tell", async () => {
    await using shim = await TestShim.start();
    const [sandbox, container] = ["d".repeat(64), "e".repeat(64)];
    shim.engine.inspectFailure = () => tooSlow;
    for (const name of ["StopPodSandbox", "RemovePodSandbox", "StopContainer", "RemoveContainer"])
      await rejectsWith(doIt(name, { shim, sandbox, container }), "timeout");
  });
});
