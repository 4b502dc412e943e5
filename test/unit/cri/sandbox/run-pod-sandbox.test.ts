import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import { PodSandboxState } from "../../../../src/domain/cri.js";
import { nameOf } from "../../../fakes/journal.js";
import { holdRequests, listedSandboxes, rejectsWith, runSandbox } from "../../../fakes/pods.js";
import { hostNetworkRequest, runRequest } from "../../../fakes/requests.js";
import { shimOfEachTest, type TestShim, pauseImage } from "../../../fakes/services.js";
import { until, turns } from "../../../fakes/turns.js";

const shim = shimOfEachTest();

const name = "k8s_POD_web_default_uid-1_0";
/** What the steps of a run change, in the order in which they must happen. */
const changes = [
  "engine.createContainer",
  "checkpoints.put",
  "records.write",
  "engine.startContainer",
  "host.writeResolvConf",
  "network.setUpPod",
  "checkpoints.flushed",
];

/** Nothing of any sandbox is left anywhere. */
function assertNothingLeft(shim: TestShim): void {
  const { engine, network, checkpoints } = shim.world;
  assert.deepEqual(engine.containers.ids, [], "containers");
  assert.deepEqual([...checkpoints.stored.keys()], [], "checkpoints");
  assert.deepEqual([...shim.services.records.pods.all()], [], "records");
  assert.deepEqual([...network.pods.keys()], [], "networks");
  assert.deepEqual(shim.services.state.model.ids(), [], "read model");
}

/** What a create makes whose caller has left is removed when it is seen. */
async function untilNothingIsSeen({ engine, services }: TestShim): Promise<void> {
  await until(
    "all is removed",
    () => engine.containers.ids.length === 0 && services.state.model.ids().length === 0,
  );
}

describe("runPodSandbox()", () => {
  test("takes its steps in order and answers the id of a sandbox that is READY", async () => {
    const { journal, host, network, checkpoints } = shim.world;
    journal.clear();
    const id = await runSandbox(shim);
    const steps = journal.names().filter((step) => changes.includes(step));
    assert.deepEqual(steps.slice().sort(), [...changes, "records.write"].sort());
    // Checkpoint and record may change places; the rest may not.
    assert.deepEqual(
      steps.filter((step) => step !== "checkpoints.put"),
      [
        "engine.createContainer",
        "records.write",
        "engine.startContainer",
        "host.writeResolvConf",
        "network.setUpPod",
        "checkpoints.flushed",
        "records.write",
      ],
    );
    assert.ok(steps.indexOf("checkpoints.put") < steps.indexOf("engine.startContainer"));
    assert.deepEqual(await listedSandboxes(shim), { [id]: 0 });
    assert.equal(
      host.resolvConfs.get(id),
      "nameserver 10.96.0.10\nsearch svc.cluster.local\noptions ndots:5\n",
    );
    assert.match(network.pods.get(id)?.netns ?? "", /^\/proc\/\d+\/ns\/net$/);
    assert.deepEqual(checkpoints.stored.get(id), {
      version: "v1",
      name: "web",
      namespace: "default",
      data: {},
    });
    const record = shim.services.records.pods.get(id);
    assert.equal(record?.phase, "ready");
    assert.deepEqual([record.network.state, record.network.ips], ["ready", ["10.1.0.5", "fd00::5"]]);
  });

  test("sets no network up for a pod in the host's network", async () => {
    const id = await runSandbox(shim, hostNetworkRequest());
    assert.deepEqual(shim.world.journal.names("network.setUpPod"), []);
    assert.equal(shim.services.records.pods.get(id)?.network.state, "none");
    assert.equal(shim.world.checkpoints.stored.get(id)?.data.hostNetwork, true);
    assert.deepEqual(await listedSandboxes(shim), { [id]: 0 });
  });

  test("refuses a pod network whose namespace is out of reach of a plugin that needs it", async () => {
    shim.world.host.local = false;
    await rejectsWith(runSandbox(shim), "unavailable", /out of reach/);
    assertNothingLeft(shim);
  });

  test("shows the sandbox in no list before it is done, also when events tell of it", async () => {
    const { journal } = shim.world;
    const seen: Readonly<Record<string, number>>[] = [];
    const listings: Promise<unknown>[] = [];
    journal.afterStep = (step) => {
      if (changes.includes(nameOf(step)))
        listings.push(listedSandboxes(shim).then((listed) => seen.push(listed)));
    };
    const id = await runSandbox(shim);
    journal.afterStep = undefined;
    await Promise.all(listings);
    assert.deepEqual(
      seen.slice(0, -1),
      seen.slice(0, -1).map(() => ({})),
    );
    assert.deepEqual(await listedSandboxes(shim), { [id]: 0 });
  });
});

describe("runPodSandbox() undoes everything", () => {
  const failures: readonly (readonly [string, string])[] = [
    ["engine.createContainer", "the engine cannot create"],
    ["checkpoints.put", "the checkpoint cannot be written"],
    ["records.write", "the record cannot be written"],
    ["engine.startContainer", "the engine cannot start"],
    ["host.writeResolvConf", "resolv.conf cannot be written"],
    ["network.setUpPod", "the network cannot be set up"],
    ["checkpoints.flushed", "the checkpoint cannot be flushed"],
  ];
  for (const [step, what] of failures) {
    test(`when ${what}, and reports that error with its kind`, async () => {
      shim.world.journal.failNext(step, new ShimError("exhausted", "planned fault"));
      const message = /^run sandbox for pod "default\/web": .*planned fault$/;
      await rejectsWith(runSandbox(shim), "exhausted", message);
      assertNothingLeft(shim);
      assert.deepEqual(await listedSandboxes(shim), {});
      // The kubelet's next attempt succeeds.
      const id = await runSandbox(shim);
      assert.deepEqual(await listedSandboxes(shim), { [id]: PodSandboxState.SANDBOX_READY });
    });
  }

  test("in reverse order", async () => {
    const { journal } = shim.world;
    journal.failNext("network.setUpPod", new ShimError("unknown", "planned fault"));
    journal.clear();
    await assert.rejects(runSandbox(shim));
    const after = journal.names().slice(journal.names().indexOf("network.setUpPod") + 1);
    const undone = after.filter((step) => /tearDown|remove/.test(step));
    assert.deepEqual(undone.slice(0, 2), ["network.tearDownPod", "engine.removeContainer"]);
    assert.deepEqual(undone.slice(2).sort(), ["checkpoints.remove", "records.remove"]);
  });

  const cancelAfter = [
    "pauseImages.ensure",
    "engine.createContainer",
    "checkpoints.put",
    "records.write",
    "engine.startContainer",
    "engine.inspectContainer",
    "host.writeResolvConf",
    "network.setUpPod",
    "checkpoints.flushed",
  ];
  for (const step of cancelAfter) {
    test(`when the caller leaves right after ${step}`, async () => {
      const { journal } = shim.world;
      const call = shim.call();
      journal.afterStep = (done) => {
        if (nameOf(done) === step) call.abort(new ShimError("cancelled", "the caller left"));
      };
      await rejectsWith(runSandbox(shim, runRequest(), call), "cancelled", /the caller left/);
      journal.afterStep = undefined;
      await untilNothingIsSeen(shim);
      assertNothingLeft(shim);
    });
  }

  test("when the caller leaves while the engine creates: the container of the late answer is removed", async () => {
    const call = shim.call();
    const held = holdRequests(shim, "createContainer");
    const running = runSandbox(shim, runRequest(), call);
    await held.begun();
    call.abort(new ShimError("cancelled", "the caller left"));
    await rejectsWith(running, "cancelled");
    held.release();
    await until("it is made", () => shim.engine.containers.ids.length > 0);
    await untilNothingIsSeen(shim);
    assertNothingLeft(shim);
  });

  test("when the pause container ends at once", async () => {
    const { journal, engine } = shim.world;
    journal.afterStep = (step) => {
      if (nameOf(step) === "engine.startContainer") engine.containers.exit(name, 1);
    };
    const message = /the pause container is exited \(exit code 1\) right after its start/;
    await rejectsWith(runSandbox(shim), "precondition", message);
    journal.afterStep = undefined;
    assertNothingLeft(shim);
  });

  test("and keeps checkpoint and record of a container that cannot be removed, which is NOTREADY", async () => {
    const { journal } = shim.world;
    journal.failNext("network.setUpPod", new ShimError("unknown", "first"));
    journal.failNext("engine.removeContainer", new ShimError("unknown", "second"));
    await rejectsWith(runSandbox(shim), "unknown", /first/);
    const [id = ""] = shim.engine.containers.ids;
    assert.deepEqual(
      await listedSandboxes(shim),
      { [id]: 1 },
      "it runs, but it must not be taken for a ready one",
    );
    await shim.rpcs.RemovePodSandbox({ pod_sandbox_id: id }, shim.call());
    assertNothingLeft(shim);
  });
});

describe("runPodSandbox() repeated", () => {
  test("with an equal request answers the same id and makes nothing, also after a restart", async () => {
    const id = await runSandbox(shim, runRequest({ labels: { a: "1", b: "2" } }));
    shim.world.journal.clear();
    // The order of the entries of a map does not count.
    const again = runRequest({ labels: { b: "2", a: "1" } });
    assert.equal(await runSandbox(shim, again), id);
    await using second = await shim.restart();
    assert.equal(await runSandbox(second, again), id);
    const made = ["engine.createContainer", "engine.startContainer", "network.setUpPod"];
    assert.deepEqual(shim.world.journal.names(...made), []);
  });

  test("with an equal request answers the same id when the sandbox got an alternative name", async () => {
    shim.engine.containers.create(name, { Image: pauseImage, Labels: {}, HostConfig: {} });
    const id = await runSandbox(shim);
    assert.equal(await runSandbox(shim), id);
    assert.equal(shim.engine.containers.ids.length, 2);
  });

  test("concurrently makes one sandbox", async () => {
    const [first, second] = await Promise.all([runSandbox(shim), runSandbox(shim)]);
    assert.equal(first, second);
    assert.equal(shim.engine.containers.ids.length, 1);
  });

  test("with another request is a conflict, and the one that runs stays as it is, in the lists as well", async () => {
    const id = await runSandbox(shim);
    shim.world.journal.clear();
    const lists: Promise<void>[] = [];
    shim.world.journal.afterStep = (step) => {
      if (nameOf(step) === "engine.inspectContainer") {
        lists.push(
          listedSandboxes(shim).then((listed) => {
            assert.deepEqual(listed, { [id]: 0 });
          }),
        );
      }
    };
    const message = /a running sandbox already has the name/;
    await rejectsWith(runSandbox(shim, runRequest({ hostname: "other" })), "conflict", message);
    shim.world.journal.afterStep = undefined;
    await Promise.all(lists);
    assert.ok(lists.length > 0);
    const removals = shim.world.journal.names().filter((step) => /remove|stop|tearDown/i.test(step));
    assert.deepEqual(removals, []);
    assert.deepEqual(await listedSandboxes(shim), { [id]: 0 });
  });
});

describe("runPodSandbox() with a taken name", () => {
  test("removes a dead sandbox with all that belongs to it", async () => {
    const { network, checkpoints, engine } = shim.world;
    const dead = await runSandbox(shim);
    engine.containers.exit(dead, 137);
    const id = await runSandbox(shim, runRequest({ hostname: "other" }));
    assert.notEqual(id, dead);
    assert.deepEqual(engine.containers.ids, [id]);
    assert.deepEqual([...checkpoints.stored.keys()], [id]);
    assert.deepEqual([...network.pods.keys()], [id]);
    assert.deepEqual(await listedSandboxes(shim), { [id]: 0 });
    assert.equal(engine.containers.get(id).name, name);
  });

  test("takes a random suffix when a foreign container has it, and keeps that container", async () => {
    const { containers } = shim.engine;
    const foreign = containers.create(name, { Image: pauseImage, Labels: {}, HostConfig: {} });
    const id = await runSandbox(shim);
    assert.match(containers.get(id).name, new RegExp(`^${name}_[0-9a-f]{8}$`));
    assert.equal(containers.get(foreign).name, name);
    assert.deepEqual(await listedSandboxes(shim), { [id]: 0 });
  });

  test("tries the name again when the conflicting container is gone by then", async () => {
    const conflictingId = "f".repeat(64);
    shim.engine.failNext("createContainer", new ShimError("conflict", "taken", { conflictingId }));
    const id = await runSandbox(shim);
    assert.equal(shim.engine.containers.get(id).name, name);
  });

  test("takes a random suffix when the engine does not say who has it", async () => {
    shim.engine.failNext("createContainer", new ShimError("conflict", "taken"));
    const id = await runSandbox(shim);
    assert.match(shim.engine.containers.get(id).name, /_[0-9a-f]{8}$/);
  });
});

describe("runPodSandbox() recovers", () => {
  const cannotLower = (
    _name: string,
    { HostConfig }: { readonly HostConfig: { readonly OomScoreAdj?: number } },
  ): Error | undefined =>
    (HostConfig.OomScoreAdj ?? 0) < 0
      ? new ShimError("unknown", "write oom_score_adj: permission denied")
      : undefined;

  test("from a host that cannot lower OOM scores, once and for all", async () => {
    const { engine, journal } = shim.world;
    engine.startFailure = cannotLower;
    const id = await runSandbox(shim);
    assert.equal(engine.containers.get(id).body.HostConfig.OomScoreAdj, 0);
    assert.deepEqual(engine.containers.ids, [id]);
    assert.deepEqual([...shim.world.checkpoints.stored.keys()], [id]);
    const found = [...shim.services.records.pods.all()].map(({ sandboxId }) => sandboxId);
    assert.deepEqual(found, [id]);
    journal.clear();
    await runSandbox(
      shim,
      runRequest({ metadata: { name: "two", namespace: "default", uid: "uid-2", attempt: 0 } }),
    );
    assert.equal(journal.names("engine.createContainer").length, 1, "the next sandbox is made right at once");
  });

  test("from such a host without the failed container in any list, even when its events are lost", async () => {
    shim.engine.startFailure = cannotLower;
    shim.engine.events$.policy = ({ action }) => (action === "create" ? [0] : []);
    const id = await runSandbox(shim);
    await turns(5);
    assert.deepEqual(shim.services.state.model.ids(), [id]);
    assert.deepEqual(await listedSandboxes(shim), { [id]: 0 });
  });

  test("from a pause image that vanished", async () => {
    const { engine, journal } = shim.world;
    journal.clear();
    let lost = false;
    journal.afterStep = (step) => {
      if (nameOf(step) === "pauseImages.ensure" && !lost) engine.images.lose(pauseImage);
      lost = true;
    };
    const id = await runSandbox(shim);
    // The engine's events of the image invalidate, too.
    const steps = journal.names("pauseImages.ensure", "pauseImages.invalidate");
    assert.deepEqual(steps.filter((name, at) => name !== steps[at - 1]).slice(0, 3), [
      "pauseImages.ensure",
      "pauseImages.invalidate",
      "pauseImages.ensure",
    ]);
    assert.deepEqual(await listedSandboxes(shim), { [id]: 0 });
  });
});

test("a sandbox whose set-up a crash interrupted stays NOTREADY after the restart", async () => {
  const { engine } = shim.world;
  const plain = await runSandbox(shim);
  const record = shim.services.records.pods.get(plain);
  assert.ok(record);
  await shim.services.records.pods.put({ ...record, phase: "creating" });
  await using second = await shim.restart();
  assert.deepEqual(await listedSandboxes(second), { [plain]: 1 });
  assert.equal(engine.containers.get(plain).state.running, true);
});
