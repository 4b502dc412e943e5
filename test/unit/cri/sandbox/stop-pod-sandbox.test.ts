import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import type { PodNetworkTearDown } from "../../../../src/shim/ports/network-plugin.js";
import {
  createContainer,
  listedContainers,
  listedSandboxes,
  rejectsWith,
  runContainer,
  runSandbox,
  startContainer,
} from "../../../fakes/pods.js";
import { hostNetworkRequest, runRequest } from "../../../fakes/requests.js";
import { shimOfEachTest, type TestShim } from "../../../fakes/services.js";
import { turns, until } from "../../../fakes/turns.js";

const shim = shimOfEachTest();

const never = new AbortController().signal;
const stop = (shim: TestShim, id: string): Promise<unknown> =>
  shim.rpcs.StopPodSandbox({ pod_sandbox_id: id }, shim.call("StopPodSandbox"));

/** A sandbox of dockershim or cri-dockerd: a container and a checkpoint, and no record. */
async function foreignSandbox(shim: TestShim, request = runRequest()): Promise<string> {
  const id = await runSandbox(shim, request);
  await shim.services.records.pods.remove(id);
  shim.services.state.model.recordChanged(id);
  assert.deepEqual(await listedSandboxes(shim), { [id]: 0 });
  return id;
}

describe("stopPodSandbox()", () => {
  test("stops the containers, then tears the network down, then stops the pause container", async () => {
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
    const port_mappings = [
      { protocol: 1, container_port: 53, host_port: 5353, host_ip: "127.0.0.1" },
    ] as const;
    const id = await runSandbox(shim, runRequest({ port_mappings }));
    const setUp = shim.world.network.pods.get(id);
    await stop(shim, id);
    assert.deepEqual(shim.world.journal.argsOf("network.tearDownPod")[0], [
      {
        namespace: "default",
        name: "web",
        sandboxId: id,
        netns: setUp?.netns,
        netnsIdentity: setUp?.netnsIdentity,
        portMappings: [{ protocol: "udp", containerPort: 53, hostPort: 5353, hostIp: "127.0.0.1" }],
        setUpBy: "cni",
      },
    ]);
  });

  test("tears the network down once, however often it is asked, also after a restart of the shim", async () => {
    const id = await runSandbox(shim);
    await stop(shim, id.slice(0, 12));
    await stop(shim, id);
    await using second = await shim.restart();
    await stop(second, id);
    assert.equal(shim.world.journal.names("network.tearDownPod").length, 1);
    assert.deepEqual(await listedSandboxes(second), { [id]: 1 });
  });

  test("keeps the pause container running while the tear-down fails, is an error, and succeeds later", async () => {
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

  test("stops the other containers when one cannot be stopped, and reports that one", async () => {
    const id = await runSandbox(shim);
    const containers = [await runContainer(shim, id, "one"), await runContainer(shim, id, "two")];
    shim.engine.failNext("stopContainer", new ShimError("unknown", "engine is confused"));
    await rejectsWith(stop(shim, id), "unknown", /stop the containers of sandbox .*engine is confused/);
    const running = containers.map((container) => shim.engine.containers.get(container).state.running);
    assert.deepEqual(running.sort(), [false, true]);
    assert.equal(shim.engine.containers.get(id).state.running, true);
    assert.deepEqual(shim.world.journal.names("network.tearDownPod"), []);
  });

  test("lets text that is no id reach neither the plugin, nor a file, nor the engine", async () => {
    await runSandbox(shim);
    shim.world.journal.clear();
    const long = "e".repeat(64);
    for (const id of ["../../etc/passwd", "web", "", "F".repeat(64), long.slice(1), `${long}/..`]) {
      await stop(shim, id);
      await shim.rpcs.RemovePodSandbox({ pod_sandbox_id: id }, shim.call());
      await shim.rpcs.StopContainer({ container_id: id, timeout: "0" }, shim.call());
      await shim.rpcs.RemoveContainer({ container_id: id }, shim.call());
      assert.deepEqual(shim.world.journal.names(), [], id);
    }
  });

  test("succeeds for an unknown id and that of a container, and changes nothing", async () => {
    const container = await runContainer(shim, await runSandbox(shim));
    for (const id of ["f".repeat(64), container]) {
      await stop(shim, id);
      await shim.rpcs.RemovePodSandbox({ pod_sandbox_id: id }, shim.call());
    }
    assert.equal(shim.engine.containers.get(container).state.running, true);
    assert.deepEqual(shim.world.journal.names("network.tearDownPod", "engine.stopContainer"), []);
  });

  test("fails unavailable while the engine is lost", async () => {
    const id = await runSandbox(shim);
    shim.engine.down();
    await rejectsWith(stop(shim, id), "unavailable");
  });
});

describe("stopPodSandbox() of a sandbox that the engine lost", () => {
  test("releases its network with what record and checkpoint say", async () => {
    const id = await runSandbox(shim);
    shim.engine.containers.lose(id);
    await using second = await shim.restart();
    assert.deepEqual(await listedSandboxes(second), { [id]: 1 }, "it is listed by its checkpoint");
    await stop(second, id);
    await stop(second, id);
    const tearDowns = shim.world.journal.argsOf("network.tearDownPod");
    const expected = { namespace: "default", name: "web", sandboxId: id, portMappings: [], setUpBy: "cni" };
    assert.deepEqual(tearDowns, [[expected]]);
  });

  test("releases its network with the checkpoint alone, as dockershim left it", async () => {
    const id = "e".repeat(64);
    const portMappings = [{ protocol: "tcp", containerPort: 80, hostPort: 8080 }] as const;
    const data = { portMappings };
    shim.world.checkpoints.stored.set(id, { version: "v1", namespace: "ns", name: "old", data });
    await stop(shim, id);
    const [[request] = []] = shim.world.journal.argsOf("network.tearDownPod");
    assert.deepEqual(request, {
      namespace: "ns",
      name: "old",
      sandboxId: id,
      portMappings: [{ protocol: "tcp", containerPort: 80, hostPort: 8080, hostIp: "" }],
      setUpBy: undefined,
    });
  });

  test("leaves the host's network alone when the checkpoint says so", async () => {
    const id = "e".repeat(64);
    const data = { hostNetwork: true } as const;
    shim.world.checkpoints.stored.set(id, { version: "v1", namespace: "ns", name: "old", data });
    await stop(shim, id);
    assert.deepEqual(shim.world.journal.names("network.tearDownPod"), []);
  });
});

for (const [whose, make] of [
  ["this program", runSandbox],
  ["another program", foreignSandbox],
] as const) {
  describe(`stopPodSandbox() of a sandbox of ${whose}`, () => {
    test("does not touch the network of the host", async () => {
      const id = await make(shim, hostNetworkRequest());
      await stop(shim, id);
      assert.equal(shim.services.records.pods.get(id)?.network.state, "none");
      assert.deepEqual(shim.world.journal.names("network.tearDownPod"), []);
      assert.equal(shim.engine.containers.get(id).state.running, false);
    });

    test("succeeds on a full disk", async () => {
      const id = await make(shim, runRequest());
      for (let write = 0; write < 5; write += 1)
        shim.world.journal.failNext("records.write", new ShimError("unavailable", "disk full"));
      await stop(shim, id);
      assert.equal(shim.engine.containers.get(id).state.running, false);
      assert.equal(shim.world.network.pods.size, 0);
      assert.deepEqual(await listedSandboxes(shim), { [id]: 1 });
    });
  });
}

describe("stopPodSandbox() of a sandbox that another program made", () => {
  test("tears its network down once, also over a restart", async () => {
    const id = await foreignSandbox(shim);
    await stop(shim, id);
    await stop(shim, id);
    await using second = await shim.restart();
    await stop(second, id);
    assert.equal(shim.world.journal.names("network.tearDownPod").length, 1);
    const { network, ...record } = second.services.records.pods.get(id) ?? assert.fail("no record");
    assert.deepEqual(network, { plugin: "", state: "tornDown", ips: [] });
    assert.deepEqual(record, {
      version: 1,
      sandboxId: id,
      name: "web",
      namespace: "default",
      uid: "uid-1",
      attempt: 0,
      phase: "stopped",
      runtimeHandler: "",
      logDirectory: "",
      cgroupParent: "",
      namespaces: { network: 0, pid: 1, ipc: 0 },
    });
  });

  test("makes it NOTREADY at once, although the tear-down fails", async () => {
    const id = await foreignSandbox(shim);
    shim.world.network.tearDownFailure = new ShimError("unavailable", "no such bridge");
    await rejectsWith(stop(shim, id), "unavailable");
    assert.deepEqual(await listedSandboxes(shim), { [id]: 1 });
  });
});

describe("stopPodSandbox() tells the network plugin who has set the pod up", () => {
  const noop = "kubernetes.io/no-op";
  const rows: readonly (readonly [
    what: string,
    pod: { readonly mode: "default" | "bridge" | "none"; readonly recorded?: string },
    expected: string | undefined,
  ])[] = [
    ["the plugin on record", { mode: "none", recorded: "kubenet" }, "kubenet"],
    ["no-op on record", { mode: "default", recorded: noop }, noop],
    ["Docker, whatever is on record", { mode: "default", recorded: "cni" }, noop],
    [
      "not no-op, whatever is on record, without Docker's network",
      { mode: "none", recorded: noop },
      undefined,
    ],
    ["no-op of another program", { mode: "default" }, noop],
    ["no-op of another program, as newer engines call it", { mode: "bridge" }, noop],
    ["another plugin of another program", { mode: "none" }, undefined],
  ];
  for (const [what, { mode, recorded }, expected] of rows) {
    test(what, async () => {
      const request = runRequest();
      const id = await (recorded === undefined ? foreignSandbox : runSandbox)(shim, request);
      Object.assign(shim.engine.containers.get(id).body.HostConfig, { NetworkMode: mode });
      await shim.services.state.sync.refresh(id, never);
      if (recorded !== undefined) {
        await shim.services.records.pods.update(id, (record) => ({
          ...record,
          network: { ...record.network, plugin: recorded },
        }));
      }
      shim.world.network.tearDownFailure = new ShimError("unavailable", "not yet");
      await rejectsWith(stop(shim, id), "unavailable");
      shim.world.network.tearDownFailure = undefined;
      await stop(shim, id);
      const told = shim.world.journal
        .argsOf("network.tearDownPod")
        .map(([tearDown]) => (tearDown as PodNetworkTearDown).setUpBy);
      assert.deepEqual(told, [expected, expected]);
      assert.equal(shim.services.records.pods.get(id)?.network.plugin, recorded ?? expected ?? "");
    });
  }
});

describe("stopPodSandbox() against other calls", () => {
  test("waits for a start that is under way, and leaves no container running", async () => {
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

  test("stops a container that another program has started again, before its event arrives", async () => {
    const id = await runSandbox(shim);
    const container = await runContainer(shim, id, "one");
    await shim.rpcs.StopContainer({ container_id: container, timeout: "0" }, shim.call("StopContainer"));
    await turns(10);
    shim.engine.events$.policy = () => [];
    shim.engine.containers.start(container);
    await stop(shim, id);
    assert.equal(shim.engine.containers.get(container).state.status, "exited");
    shim.engine.containers.start(container);
    await stop(shim, id);
    assert.equal(shim.engine.containers.get(container).state.status, "exited");
  });

  test("asks the engine to stop no container that was never started, or has ended", async () => {
    const id = await runSandbox(shim);
    const created = await createContainer(shim, id);
    shim.engine.containers.exit(await runContainer(shim, id, "ended"), 0);
    await stop(shim, id);
    assert.deepEqual(shim.world.journal.argsOf("engine.stopContainer"), [[id, 10]]);
    assert.equal(shim.engine.containers.get(created).state.status, "created");
  });

  test("looks once more for containers that were started while the stop could not be recorded", async () => {
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

const remove = (shim: TestShim, id: string): Promise<unknown> =>
  shim.rpcs.RemovePodSandbox({ pod_sandbox_id: id }, shim.call("RemovePodSandbox"));

describe("removePodSandbox()", () => {
  test("of a stopped sandbox names the pod in the log line", async () => {
    const id = await runSandbox(shim);
    await shim.rpcs.StopPodSandbox({ pod_sandbox_id: id }, shim.call("StopPodSandbox"));
    const call = shim.call("RemovePodSandbox");
    await shim.rpcs.RemovePodSandbox({ pod_sandbox_id: id }, call);
    assert.equal(call.pod, "default/web");
  });

  test("stops a running sandbox first, removes checkpoint and record last, and leaves nothing", async () => {
    const { engine, network, checkpoints, host } = shim.world;
    const id = await runSandbox(shim);
    await runContainer(shim, id, "one");
    await runContainer(shim, id, "two");
    shim.world.journal.clear();
    await remove(shim, id);
    const steps = shim.world.journal.names().filter((step) => /remove|tearDown/i.test(step));
    assert.equal(steps[0], "network.tearDownPod");
    assert.deepEqual(steps.slice(-2).sort(), ["checkpoints.remove", "records.remove"]);
    assert.deepEqual(engine.containers.ids, []);
    assert.deepEqual([network.pods.size, checkpoints.stored.size, host.links.size], [0, 0, 0]);
    assert.deepEqual([...shim.services.records.pods.all()], []);
    assert.deepEqual(await listedSandboxes(shim), {});
    assert.deepEqual(await listedContainers(shim), {});
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
      const id = await runSandbox(shim);
      journal.failNext(step, new ShimError("unknown", "planned fault"));
      await rejectsWith(remove(shim, id), "unknown", /planned fault/);
      assert.equal(engine.containers.ids.length > 0, kept);
      await remove(shim, id);
      assert.deepEqual(engine.containers.ids, []);
      assert.deepEqual([network.pods.size, checkpoints.stored.size], [0, 0]);
      assert.deepEqual([...shim.services.records.pods.all()], []);
    });
  }

  test("keeps the sandbox when one of its containers cannot be removed, and removes the others", async () => {
    const { engine } = shim.world;
    const id = await runSandbox(shim);
    await runContainer(shim, id, "one");
    await runContainer(shim, id, "two");
    engine.failNext("removeContainer", new ShimError("unknown", "device busy"));
    await rejectsWith(remove(shim, id), "unknown", /device busy/);
    assert.equal(engine.containers.ids.length, 2);
    assert.ok(engine.containers.find(id));
    await remove(shim, id);
    assert.deepEqual(engine.containers.ids, []);
  });

  test("removes a sandbox that exists only as a checkpoint", async () => {
    const id = "e".repeat(64);
    shim.world.checkpoints.stored.set(id, { version: "v1", namespace: "ns", name: "old", data: {} });
    assert.deepEqual(await listedSandboxes(shim), { [id]: 1 });
    await remove(shim, id);
    assert.deepEqual(await listedSandboxes(shim), {});
  });

  test("concurrently with itself and with stop succeeds, and releases the network once", async () => {
    const id = await runSandbox(shim);
    await runContainer(shim, id);
    const stop = shim.rpcs.StopPodSandbox({ pod_sandbox_id: id }, shim.call());
    await Promise.all([stop, remove(shim, id), remove(shim, id)]);
    assert.deepEqual(shim.engine.containers.ids, []);
    // The last call finds neither record nor checkpoint, and cannot know that nothing is left.
    assert.deepEqual(shim.world.network.pods.size, 0);
  });
});
