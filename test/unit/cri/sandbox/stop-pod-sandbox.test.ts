import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { ValidRunPodSandbox } from "../../../../src/domain/requests.js";
import { ShimError } from "../../../../src/lib/errors.js";
import type { PodNetworkTearDown } from "../../../../src/shim/ports/network-plugin.js";
import { rejectsWith } from "../../../support/refusals.js";
import { hostNetworkRequest, runRequest } from "../../../fakes/requests.js";
import { shimOfEachTest, type TestShim } from "../../../fakes/services.js";
import { turns, until } from "../../../fakes/turns.js";

const shim = shimOfEachTest();

/** A sandbox of dockershim or cri-dockerd: a container and a checkpoint, and no record. */
async function foreignSandbox(shim: TestShim, request = runRequest()): Promise<string> {
  const id = await shim.runSandbox(request);
  await shim.services.records.pods.remove(id);
  shim.services.state.model.recordChanged(id);
  assert.deepEqual(await shim.listedSandboxes(), { [id]: 0 });
  return id;
}

describe("stopPodSandbox()", () => {
  const isPauseStopped = (id: string): boolean => !shim.engine.containers.get(id).state.running;

  for (const [what, holdsNamespaces] of [
    ["stops the pause container while the network is torn down, which holds the namespace", true],
    [
      "stops the pause container after the tear-down of the network, which does not hold the namespace",
      false,
    ],
  ] as const) {
    test(`stops the containers, then ${what}`, async () => {
      const { journal, network } = shim.world;
      const id = await shim.runSandbox();
      const [one, two] = [await shim.runContainer(id, "one"), await shim.runContainer(id, "two")];
      network.holdsNamespaces = holdsNamespaces;
      network.duringTearDown = async () => {
        const running = [one, two].map((container) => shim.engine.containers.get(container).state.running);
        assert.deepEqual(running, [false, false]);
        if (holdsNamespaces) await until("the pause container is stopped", () => isPauseStopped(id));
        else await turns(20);
      };
      journal.clear();
      await shim.stopSandbox(id);
      const steps = journal.steps.filter(({ verb }) => ["stopContainer", "tearDownPod"].includes(verb));
      const subjects = steps.map(({ verb, args }) => (verb === "tearDownPod" ? "network" : args[0]));
      assert.deepEqual(new Set(subjects.slice(0, 2)), new Set([one, two]));
      assert.deepEqual(subjects.slice(2), holdsNamespaces ? [id, "network"] : ["network", id]);
      assert.equal(network.pods.size, 0);
      assert.deepEqual(await shim.listedSandboxes(), { [id]: 1 });
      assert.deepEqual(await shim.listedContainers(), { [one]: 2, [two]: 2 });
    });
  }

  test("waits for the tear-down when the pause container cannot be stopped, and does not repeat it", async () => {
    const { journal, network, engine } = shim.world;
    const id = await shim.runSandbox();
    engine.failNext("stopContainer", new ShimError("unknown", "engine is confused"));
    network.duringTearDown = () => turns(20);
    await rejectsWith(shim.stopSandbox(id), "unknown", /engine is confused/);
    assert.equal(network.pods.size, 0);
    await shim.stopSandbox(id);
    assert.ok(isPauseStopped(id));
    assert.equal(journal.names("network.tearDownPod").length, 1);
  });

  test("names both when the tear-down and the stop of the pause container fail", async () => {
    const { network, engine } = shim.world;
    const id = await shim.runSandbox();
    engine.failNext("stopContainer", new ShimError("unknown", "engine is confused"));
    network.tearDownFailure = new ShimError("unavailable", "no such bridge");
    const both = /tear down the network of sandbox .*no such bridge.*engine is confused/;
    await rejectsWith(shim.stopSandbox(id), "unavailable", both);
  });

  test("gives the tear-down the namespace and the port mappings of the set-up", async () => {
    const port_mappings = [
      { protocol: 1, container_port: 53, host_port: 5353, host_ip: "127.0.0.1" },
    ] as const;
    const id = await shim.runSandbox(runRequest({ port_mappings }));
    const setUp = shim.world.network.pods.get(id);
    await shim.stopSandbox(id);
    const { netns, netnsIdentity } = setUp ?? assert.fail("no network");
    const portMappings = [{ protocol: "udp", containerPort: 53, hostPort: 5353, hostIp: "127.0.0.1" }];
    const pod = { namespace: "default", name: "web", sandboxId: id };
    const expected = { ...pod, netns, netnsIdentity, portMappings, setUpBy: "cni" };
    assert.deepEqual(shim.world.journal.argsOf("network.tearDownPod"), [[expected]]);
  });

  test("tears the network down once, however often it is asked, also after a restart of the shim", async () => {
    const id = await shim.runSandbox();
    await shim.stopSandbox(id.slice(0, 12));
    await shim.stopSandbox(id);
    await using second = await shim.restart();
    await second.stopSandbox(id);
    assert.equal(shim.world.journal.names("network.tearDownPod").length, 1);
    assert.deepEqual(await second.listedSandboxes(), { [id]: 1 });
  });

  for (const [what, holdsNamespaces] of [
    ["stops the pause container, whose namespace is held", true],
    ["keeps the pause container running, whose namespace is not held", false],
  ] as const) {
    test(`while the tear-down fails, ${what}, is an error, and succeeds later`, async () => {
      const { network } = shim.world;
      const id = await shim.runSandbox();
      network.holdsNamespaces = holdsNamespaces;
      network.tearDownFailure = new ShimError("unavailable", "no such bridge");
      await rejectsWith(
        shim.stopSandbox(id),
        "unavailable",
        /tear down the network of sandbox .*no such bridge/,
      );
      assert.equal(isPauseStopped(id), holdsNamespaces);
      assert.deepEqual(await shim.listedSandboxes(), { [id]: 1 }, "it is not ready any more");
      await using second = await shim.restart();
      network.tearDownFailure = undefined;
      await second.stopSandbox(id);
      assert.equal(isPauseStopped(id), true);
      assert.equal(network.pods.size, 0);
    });
  }

  test("stops the other containers when one cannot be stopped, and reports that one", async () => {
    const id = await shim.runSandbox();
    const containers = [await shim.runContainer(id, "one"), await shim.runContainer(id, "two")];
    shim.engine.failNext("stopContainer", new ShimError("unknown", "engine is confused"));
    await rejectsWith(shim.stopSandbox(id), "unknown", /stop the containers of sandbox .*engine is confused/);
    const running = containers.map((container) => shim.engine.containers.get(container).state.running);
    assert.deepEqual(running.sort(), [false, true]);
    assert.equal(shim.engine.containers.get(id).state.running, true);
    assert.deepEqual(shim.world.journal.names("network.tearDownPod"), []);
  });

  test("lets text that is no id reach neither the plugin, nor a file, nor the engine", async () => {
    await shim.runSandbox();
    shim.world.journal.clear();
    const long = "e".repeat(64);
    for (const id of ["../../etc/passwd", "web", "", "F".repeat(64), long.slice(1), `${long}/..`]) {
      await shim.stopSandbox(id);
      await shim.removeSandbox(id);
      await shim.stopContainer(id);
      await shim.removeContainer(id);
      assert.deepEqual(shim.world.journal.names(), [], id);
    }
  });

  test("succeeds for an unknown id and that of a container, and changes nothing", async () => {
    const container = await shim.runContainer();
    for (const id of ["f".repeat(64), container]) {
      await shim.stopSandbox(id);
      await shim.removeSandbox(id);
    }
    assert.equal(shim.engine.containers.get(container).state.running, true);
    assert.deepEqual(shim.world.journal.names("network.tearDownPod", "engine.stopContainer"), []);
  });

  test("fails unavailable while the engine is lost", async () => {
    const id = await shim.runSandbox();
    shim.engine.down();
    await rejectsWith(shim.stopSandbox(id), "unavailable");
  });
});

describe("stopPodSandbox() of a sandbox that the engine lost", () => {
  test("releases its network with what record and checkpoint say", async () => {
    const id = await shim.runSandbox();
    shim.engine.containers.lose(id);
    await using second = await shim.restart();
    assert.deepEqual(await second.listedSandboxes(), { [id]: 1 }, "it is listed by its checkpoint");
    await second.stopSandbox(id);
    await second.stopSandbox(id);
    const tearDowns = shim.world.journal.argsOf("network.tearDownPod");
    const expected = { namespace: "default", name: "web", sandboxId: id, portMappings: [], setUpBy: "cni" };
    assert.deepEqual(tearDowns, [[expected]]);
  });

  test("releases its network with the checkpoint alone, as dockershim left it", async () => {
    const id = "e".repeat(64);
    const port = { protocol: "tcp", containerPort: 80, hostPort: 8080 } as const;
    shim.addCheckpoint(id, { portMappings: [port] });
    await shim.stopSandbox(id);
    const [[request] = []] = shim.world.journal.argsOf("network.tearDownPod");
    const pod = { namespace: "ns", name: "old", sandboxId: id };
    assert.deepEqual(request, { ...pod, portMappings: [{ ...port, hostIp: "" }], setUpBy: undefined });
  });

  test("leaves the host's network alone when the checkpoint says so", async () => {
    const id = "e".repeat(64);
    shim.addCheckpoint(id, { hostNetwork: true });
    await shim.stopSandbox(id);
    assert.deepEqual(shim.world.journal.names("network.tearDownPod"), []);
  });
});

for (const [whose, make] of [
  ["this program", (shim: TestShim, request: ValidRunPodSandbox) => shim.runSandbox(request)],
  ["another program", foreignSandbox],
] as const) {
  describe(`stopPodSandbox() of a sandbox of ${whose}`, () => {
    test("does not touch the network of the host", async () => {
      const id = await make(shim, hostNetworkRequest());
      await shim.stopSandbox(id);
      assert.equal(shim.services.records.pods.get(id)?.network.state, "none");
      assert.deepEqual(shim.world.journal.names("network.tearDownPod"), []);
      assert.equal(shim.engine.containers.get(id).state.running, false);
    });

    test("succeeds on a full disk", async () => {
      const id = await make(shim, runRequest());
      for (let write = 0; write < 5; write += 1)
        shim.world.journal.failNext("records.write", new ShimError("unavailable", "disk full"));
      await shim.stopSandbox(id);
      assert.equal(shim.engine.containers.get(id).state.running, false);
      assert.equal(shim.world.network.pods.size, 0);
      assert.deepEqual(await shim.listedSandboxes(), { [id]: 1 });
    });
  });
}

describe("stopPodSandbox() of a sandbox that another program made", () => {
  test("tears its network down once, also over a restart", async () => {
    const id = await foreignSandbox(shim);
    await shim.stopSandbox(id);
    await shim.stopSandbox(id);
    await using second = await shim.restart();
    await second.stopSandbox(id);
    assert.equal(shim.world.journal.names("network.tearDownPod").length, 1);
    assert.deepEqual(second.services.records.pods.get(id), {
      ...{ version: 1, sandboxId: id, name: "web", namespace: "default", uid: "uid-1", attempt: 0 },
      ...{ phase: "stopped", runtimeHandler: "", logDirectory: "", cgroupParent: "" },
      namespaces: { network: 0, pid: 1, ipc: 0 },
      network: { plugin: "", state: "tornDown", ips: [] },
    });
  });

  test("makes it NOTREADY at once, although the tear-down fails", async () => {
    const id = await foreignSandbox(shim);
    shim.world.network.tearDownFailure = new ShimError("unavailable", "no such bridge");
    await rejectsWith(shim.stopSandbox(id), "unavailable");
    assert.deepEqual(await shim.listedSandboxes(), { [id]: 1 });
  });
});

describe("stopPodSandbox() tells the network plugin who has set the pod up", () => {
  const noop = "kubernetes.io/no-op";
  const rows: readonly (readonly [
    what: string,
    mode: "default" | "bridge" | "none",
    recorded: string | undefined,
    expected: string | undefined,
  ])[] = [
    ["the plugin on record", "none", "kubenet", "kubenet"],
    ["no-op on record", "default", noop, noop],
    ["Docker, whatever is on record", "default", "cni", noop],
    ["not no-op, whatever is on record, without Docker's network", "none", noop, undefined],
    ["no-op of another program", "default", undefined, noop],
    ["no-op of another program, as newer engines call it", "bridge", undefined, noop],
    ["another plugin of another program", "none", undefined, undefined],
  ];
  for (const [what, mode, recorded, expected] of rows) {
    test(what, async () => {
      const id = await (recorded === undefined ? foreignSandbox(shim) : shim.runSandbox());
      Object.assign(shim.engine.containers.get(id).body.HostConfig, { NetworkMode: mode });
      await shim.sync.refresh(id);
      if (recorded !== undefined) {
        const { pods } = shim.services.records;
        await pods.update(id, (one) => ({ ...one, network: { ...one.network, plugin: recorded } }));
      }
      shim.world.network.tearDownFailure = new ShimError("unavailable", "not yet");
      await rejectsWith(shim.stopSandbox(id), "unavailable");
      shim.world.network.tearDownFailure = undefined;
      await shim.stopSandbox(id);
      const told = shim.world.journal.argsOf("network.tearDownPod") as [PodNetworkTearDown][];
      const found = told.map(([{ setUpBy }]) => setUpBy);
      assert.deepEqual(found, [expected, expected]);
      assert.equal(shim.services.records.pods.get(id)?.network.plugin, recorded ?? expected ?? "");
    });
  }
});

describe("stopPodSandbox() against other calls", () => {
  test("waits for a start that is under way, and leaves no container running", async () => {
    const id = await shim.runSandbox();
    const container = await shim.createContainer(id);
    const held = shim.holdRequests("startContainer");
    const started = shim.startContainer(container).catch(() => undefined);
    await held.begun();
    const stopped = shim.stopSandbox(id);
    await until("it is not ready", () => shim.services.state.model.sandbox(id)?.ready === false);
    await turns(20);
    assert.deepEqual(shim.world.journal.names("network.tearDownPod"), []);
    held.release();
    await Promise.all([started, stopped]);
    assert.equal(shim.engine.containers.get(container).state.running, false);
    assert.equal((await shim.listedContainers())[container], 2);
  });

  test("stops a container that another program has started again, before its event arrives", async () => {
    const id = await shim.runSandbox();
    const container = await shim.runContainer(id, "one");
    await shim.stopContainer(container);
    await turns(10);
    shim.engine.events$.policy = () => [];
    shim.engine.containers.start(container);
    await shim.stopSandbox(id);
    assert.equal(shim.engine.containers.get(container).state.status, "exited");
    shim.engine.containers.start(container);
    await shim.stopSandbox(id);
    assert.equal(shim.engine.containers.get(container).state.status, "exited");
  });

  test("asks the engine to stop no container that was never started, or has ended", async () => {
    const id = await shim.runSandbox();
    const created = await shim.createContainer(id);
    const ended = await shim.runContainer(id, "ended");
    shim.engine.containers.exit(ended, 0);
    const { model } = shim.services.state;
    await until("its end is seen", () => model.snapshot(ended)?.state.running === false);
    await shim.stopSandbox(id);
    assert.deepEqual(shim.world.journal.argsOf("engine.stopContainer"), [[id, 10]]);
    assert.equal(shim.engine.containers.get(created).state.status, "created");
  });

  test("looks once more for containers that were started while the stop could not be recorded", async () => {
    const { journal } = shim.world;
    const id = await shim.runSandbox();
    const container = await shim.createContainer(id);
    journal.failNext("records.write", new ShimError("unavailable", "disk full"));
    journal.afterStep = ({ verb }) => {
      if (verb !== "tearDownPod") return;
      // A StartContainer that came after the first look, and found the sandbox ready.
      shim.engine.containers.start(container);
    };
    await shim.stopSandbox(id);
    assert.equal(shim.engine.containers.get(container).state.running, false);
  });

  test("reads a sandbox anew whose state may be outdated, before it goes by its process id", async () => {
    const id = await shim.runSandbox();
    const { model } = shim.services.state;
    shim.engine.events$.policy = () => [];
    shim.engine.containers.restart(id);
    model.failed(id);
    await shim.stopSandbox(id);
    const [[request] = []] = shim.world.journal.argsOf("network.tearDownPod");
    const { pid: _pid, ...state } = shim.engine.containers.get(id).state;
    assert.equal(state.running, false);
    assert.equal((request as { netns: string }).netns, "/proc/1002/ns/net");
  });
});

describe("removePodSandbox()", () => {
  test("of a stopped sandbox names the pod in the log line", async () => {
    const id = await shim.runSandbox();
    await shim.stopSandbox(id);
    const call = shim.call("RemovePodSandbox");
    await shim.rpcs.RemovePodSandbox({ pod_sandbox_id: id }, call);
    assert.equal(call.pod, "default/web");
  });

  test("stops a running sandbox first, removes checkpoint and record last, and leaves nothing", async () => {
    const { engine, network, checkpoints, host } = shim.world;
    const id = await shim.runSandbox();
    await shim.runContainer(id, "one");
    await shim.runContainer(id, "two");
    shim.world.journal.clear();
    await shim.removeSandbox(id);
    const steps = shim.world.journal.names().filter((step) => /remove|tearDown/i.test(step));
    assert.equal(steps[0], "network.tearDownPod");
    assert.deepEqual(steps.slice(-2).sort(), ["checkpoints.remove", "records.remove"]);
    assert.deepEqual(engine.containers.ids, []);
    assert.deepEqual([network.pods.size, checkpoints.stored.size, host.links.size], [0, 0, 0]);
    assert.deepEqual([...shim.services.records.pods.all()], []);
    assert.deepEqual(await shim.listedSandboxes(), {});
    assert.deepEqual(await shim.listedContainers(), {});
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
      const id = await shim.runSandbox();
      journal.failNext(step, new ShimError("unknown", "planned fault"));
      await rejectsWith(shim.removeSandbox(id), "unknown", /planned fault/);
      assert.equal(engine.containers.ids.length > 0, kept);
      await shim.removeSandbox(id);
      assert.deepEqual(engine.containers.ids, []);
      assert.deepEqual([network.pods.size, checkpoints.stored.size], [0, 0]);
      assert.deepEqual([...shim.services.records.pods.all()], []);
    });
  }

  test("keeps the sandbox when one of its containers cannot be removed, and removes the others", async () => {
    const { engine } = shim.world;
    const id = await shim.runSandbox();
    await shim.runContainer(id, "one");
    await shim.runContainer(id, "two");
    engine.failNext("removeContainer", new ShimError("unknown", "device busy"));
    await rejectsWith(shim.removeSandbox(id), "unknown", /device busy/);
    assert.equal(engine.containers.ids.length, 2);
    assert.ok(engine.containers.find(id));
    await shim.removeSandbox(id);
    assert.deepEqual(engine.containers.ids, []);
  });

  test("removes a sandbox that exists only as a checkpoint", async () => {
    const id = "e".repeat(64);
    shim.addCheckpoint(id);
    assert.deepEqual(await shim.listedSandboxes(), { [id]: 1 });
    await shim.removeSandbox(id);
    assert.deepEqual(await shim.listedSandboxes(), {});
  });

  test("concurrently with itself and with stop succeeds, and releases the network once", async () => {
    const id = await shim.runSandbox();
    await shim.runContainer(id);
    await Promise.all([shim.stopSandbox(id), shim.removeSandbox(id), shim.removeSandbox(id)]);
    assert.deepEqual(shim.engine.containers.ids, []);
    // The last call finds neither record nor checkpoint, and cannot know that nothing is left.
    assert.deepEqual(shim.world.network.pods.size, 0);
  });
});
