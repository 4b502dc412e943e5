import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/shim/lib/errors.js";
import {
  listedContainers,
  listedSandboxes,
  rejectsWith,
  runContainer,
  runSandbox,
} from "../../../fakes/pods.js";
import { hostNetworkRequest, runRequest } from "../../../fakes/requests.js";
import { TestShim } from "../../../fakes/services.js";

const stop = (shim: TestShim, id: string): Promise<unknown> =>
  shim.rpcs.StopPodSandbox({ pod_sandbox_id: id }, shim.call("StopPodSandbox"));

describe("stopPodSandbox()", () => {
  test("stops the containers, then tears the network down, then stops the pause container", async () => {
    await using shim = await TestShim.start();
    const { journal, network } = shim.world;
    const id = await runSandbox(shim);
    const [one, two] = [await runContainer(shim, id, "one"), await runContainer(shim, id, "two")];
    journal.clear();
    await stop(shim, id);
    const steps = journal.steps.filter(({ verb }) => ["stopContainer", "tearDownPod"].includes(verb));
    const subjects = steps.map(({ verb, args }) => (verb === "tearDownPod" ? "network" : args[0]));
    assert.deepEqual(new Set(subjects.slice(0, 2)), new Set([one, two]));
    assert.deepEqual(subjects.slice(2), ["network", id]);
    assert.equal(network.pods.size, 0);
    assert.deepEqual(await listedSandboxes(shim), { [id]: 1 });
    assert.deepEqual(await listedContainers(shim), { [one]: 2, [two]: 2 });
  });

  test("gives the tear-down the namespace and the port mappings of the set-up", async () => {
    await using shim = await TestShim.start();
    const port_mappings = [
      { protocol: 1, container_port: 53, host_port: 5353, host_ip: "127.0.0.1" },
    ] as const;
    const id = await runSandbox(shim, runRequest({ port_mappings }));
    const setUp = shim.world.network.pods.get(id);
    await stop(shim, id);
    assert.deepEqual(shim.world.journal.argsOf("network.tearDownPod")[0], [
      {
        ...{ namespace: "default", name: "web", sandboxId: id, netns: setUp?.netns },
        netnsIdentity: setUp?.netnsIdentity,
        portMappings: [{ protocol: "udp", containerPort: 53, hostPort: 5353, hostIp: "127.0.0.1" }],
      },
    ]);
  });

  test("tears the network down once, however often it is asked, also after a restart of the shim", async () => {
    await using shim = await TestShim.start();
    const id = await runSandbox(shim);
    await stop(shim, id);
    await stop(shim, id);
    await using second = await shim.restart();
    await stop(second, id);
    assert.equal(shim.world.journal.names("network.tearDownPod").length, 1);
    assert.deepEqual(await listedSandboxes(second), { [id]: 1 });
  });

  test("keeps the pause container running while the tear-down fails, is an error, and succeeds later", async () => {
    await using shim = await TestShim.start();
    const { network, engine } = shim.world;
    const id = await runSandbox(shim);
    network.tearDownFailure = new ShimError("unavailable", "no such bridge");
    await rejectsWith(stop(shim, id), "unavailable", /tear down the network of sandbox .*no such bridge/);
    assert.equal(engine.containers.get(id).state.running, true);
    assert.deepEqual(await listedSandboxes(shim), { [id]: 1 }, "it is not ready any more");
    await using second = await shim.restart();
    network.tearDownFailure = undefined;
    await stop(second, id);
    assert.equal(engine.containers.get(id).state.running, false);
    assert.equal(network.pods.size, 0);
  });

  test("stays NOTREADY after a restart between the stop of the containers and that of the sandbox", async () => {
    await using shim = await TestShim.start();
    const id = await runSandbox(shim);
    shim.engine.failNext("stopContainer", new ShimError("timeout", "too slow"));
    await rejectsWith(stop(shim, id), "timeout");
    await using second = await shim.restart();
    assert.deepEqual(await listedSandboxes(second), { [id]: 1 });
  });

  test("does not touch the network of a pod in the host's network", async () => {
    await using shim = await TestShim.start();
    const id = await runSandbox(shim, hostNetworkRequest());
    await stop(shim, id);
    assert.deepEqual(shim.world.journal.names("network.tearDownPod"), []);
    assert.equal(shim.engine.containers.get(id).state.running, false);
  });

  test("stops the other containers when one cannot be stopped, and reports that one", async () => {
    await using shim = await TestShim.start();
    const id = await runSandbox(shim);
    const containers = [await runContainer(shim, id, "one"), await runContainer(shim, id, "two")];
    shim.engine.failNext("stopContainer", new ShimError("unknown", "engine is confused"));
    await rejectsWith(stop(shim, id), "unknown", /stop the containers of sandbox .*engine is confused/);
    const running = containers.map((container) => shim.engine.containers.get(container).state.running);
    assert.deepEqual(running.sort(), [false, true]);
    assert.equal(shim.engine.containers.get(id).state.running, true);
    assert.deepEqual(shim.world.journal.names("network.tearDownPod"), []);
  });

  test("succeeds although the record cannot be written", async () => {
    await using shim = await TestShim.start();
    const id = await runSandbox(shim);
    shim.world.journal.failNext("records.write", new ShimError("unavailable", "disk full"));
    shim.world.journal.failNext("records.write", new ShimError("unavailable", "disk full"));
    await stop(shim, id);
    assert.equal(shim.engine.containers.get(id).state.running, false);
    assert.deepEqual(await listedSandboxes(shim), { [id]: 1 });
  });

  test("takes a prefix of the id; refuses an ambiguous one", async () => {
    await using shim = await TestShim.start();
    const id = await runSandbox(shim);
    await stop(shim, id.slice(0, 12));
    assert.equal(shim.engine.containers.get(id).state.running, false);
    for (let attempt = 1; attempt < 40; attempt += 1) {
      await runSandbox(
        shim,
        runRequest({ metadata: { name: "web", namespace: "default", uid: "uid-1", attempt } }),
      );
    }
    const first = shim.engine.containers.ids.map((other) => other[0]);
    const ambiguous = first.find((digit, index) => first.indexOf(digit) !== index) ?? "";
    await rejectsWith(stop(shim, ambiguous), "invalid", /ambiguous/);
  });

  test("succeeds for an unknown id", async () => {
    await using shim = await TestShim.start();
    await stop(shim, "f".repeat(64));
    assert.deepEqual(shim.world.journal.names("engine.stopContainer"), []);
  });

  for (const id of ["../../etc/passwd", "web", "", "F".repeat(64), "e".repeat(63), `${"e".repeat(64)}/..`]) {
    test(`lets "${id}" reach neither the plugin, nor a file, nor the engine`, async () => {
      await using shim = await TestShim.start();
      await runSandbox(shim);
      shim.world.journal.clear();
      await stop(shim, id);
      await shim.rpcs.RemovePodSandbox({ pod_sandbox_id: id }, shim.call());
      await shim.rpcs.StopContainer({ container_id: id, timeout: "0" }, shim.call());
      await shim.rpcs.RemoveContainer({ container_id: id }, shim.call());
      assert.deepEqual(shim.world.journal.names(), []);
    });
  }

  test("does not bother the plugin with an id that nobody has heard of", async () => {
    await using shim = await TestShim.start();
    await stop(shim, "f".repeat(64));
    await shim.rpcs.RemovePodSandbox({ pod_sandbox_id: "f".repeat(64) }, shim.call());
    assert.deepEqual(shim.world.journal.names("network.tearDownPod"), []);
  });

  test("succeeds for the id of a container, and stops nothing", async () => {
    await using shim = await TestShim.start();
    const container = await runContainer(shim, await runSandbox(shim));
    await stop(shim, container);
    assert.equal(shim.engine.containers.get(container).state.running, true);
    assert.deepEqual(shim.world.journal.names("network.tearDownPod"), []);
  });

  test("fails unavailable while the engine is lost", async () => {
    await using shim = await TestShim.start();
    const id = await runSandbox(shim);
    shim.engine.down();
    await rejectsWith(stop(shim, id), "unavailable");
  });
});

describe("stopPodSandbox() of a sandbox that the engine lost", () => {
  test("releases its network with what record and checkpoint say", async () => {
    await using shim = await TestShim.start();
    const id = await runSandbox(shim);
    shim.engine.containers.lose(id);
    await using second = await shim.restart();
    assert.deepEqual(await listedSandboxes(second), { [id]: 1 }, "it is listed by its checkpoint");
    await stop(second, id);
    await stop(second, id);
    const tearDowns = shim.world.journal.argsOf("network.tearDownPod");
    assert.deepEqual(tearDowns, [[{ namespace: "default", name: "web", sandboxId: id, portMappings: [] }]]);
  });

  test("releases its network with the checkpoint alone, as dockershim left it", async () => {
    await using shim = await TestShim.start();
    const id = "e".repeat(64);
    const portMappings = [{ protocol: "tcp", containerPort: 80, hostPort: 8080 }] as const;
    shim.world.checkpoints.stored.set(id, {
      version: "v1",
      namespace: "ns",
      name: "old",
      data: { portMappings },
    });
    await stop(shim, id);
    const [[request] = []] = shim.world.journal.argsOf("network.tearDownPod");
    assert.deepEqual(request, {
      ...{ namespace: "ns", name: "old", sandboxId: id },
      portMappings: [{ protocol: "tcp", containerPort: 80, hostPort: 8080, hostIp: "" }],
    });
  });

  test("leaves the host's network alone when the checkpoint says so", async () => {
    await using shim = await TestShim.start();
    const id = "e".repeat(64);
    shim.world.checkpoints.stored.set(id, {
      version: "v1",
      namespace: "ns",
      name: "old",
      data: { hostNetwork: true },
    });
    await stop(shim, id);
    assert.deepEqual(shim.world.journal.names("network.tearDownPod"), []);
  });
});
