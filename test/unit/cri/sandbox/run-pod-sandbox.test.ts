import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import { PodSandboxState } from "../../../../src/domain/cri.js";
import type { FakeEngine } from "../../../fakes/fake-engine.js";
import { nameOf } from "../../../fakes/journal.js";
import { rejectsWith } from "../../../support/refusals.js";
import { hostNetworkRequest, podMetadata, runRequest } from "../../../fakes/requests.js";
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
async function untilNothingIsLeft(shim: TestShim): Promise<void> {
  const { model } = shim.services.state;
  await until("all is removed", () => shim.engine.containers.ids.length + model.ids().length === 0);
  assertNothingLeft(shim);
}

describe("runPodSandbox()", () => {
  test("takes its steps in order and answers the id of a sandbox that is READY", async () => {
    const { journal, host, network, checkpoints } = shim.world;
    journal.clear();
    const id = await shim.runSandbox();
    const steps = journal.names().filter((step) => changes.includes(step));
    // Checkpoint and record may change places; the rest may not.
    const inOrder = steps.filter((step) => step !== "checkpoints.put");
    const expected = changes.filter((step) => step !== "checkpoints.put");
    assert.deepEqual(inOrder, [...expected, "records.write"]);
    assert.ok(steps.indexOf("checkpoints.put") < steps.indexOf("engine.startContainer"));
    assert.deepEqual(await shim.listedSandboxes(), { [id]: 0 });
    const resolvConf = "nameserver 10.96.0.10\nsearch svc.cluster.local\noptions ndots:5\n";
    assert.equal(host.resolvConfs.get(id), resolvConf);
    assert.match(network.pods.get(id)?.netns ?? "", /^\/proc\/\d+\/ns\/net$/);
    const checkpoint = { version: "v1", name: "web", namespace: "default", data: {} };
    assert.deepEqual(checkpoints.stored.get(id), checkpoint);
    const {
      phase,
      network: { state, ips },
    } = shim.services.records.pods.get(id) ?? assert.fail("no record");
    assert.deepEqual([phase, state, ips], ["ready", "ready", ["10.1.0.5", "fd00::5"]]);
  });

  test("sets no network up for a pod in the host's network", async () => {
    const id = await shim.runSandbox(hostNetworkRequest());
    assert.deepEqual(shim.world.journal.names("network.setUpPod"), []);
    assert.equal(shim.services.records.pods.get(id)?.network.state, "none");
    assert.equal(shim.world.checkpoints.stored.get(id)?.data.hostNetwork, true);
    assert.deepEqual(await shim.listedSandboxes(), { [id]: 0 });
  });

  test("refuses a pod network whose namespace is out of reach of a plugin that needs it", async () => {
    shim.world.host.local = false;
    await rejectsWith(shim.runSandbox(), "unavailable", /out of reach: the engine is elsewhere$/);
    assertNothingLeft(shim);
  });

  test("shows the sandbox in no list before it is done, also when events tell of it", async () => {
    const { journal } = shim.world;
    const seen: Readonly<Record<string, number>>[] = [];
    const listings: Promise<unknown>[] = [];
    journal.afterStep = (step) => {
      if (changes.includes(nameOf(step)))
        listings.push(shim.listedSandboxes().then((listed) => seen.push(listed)));
    };
    const id = await shim.runSandbox();
    journal.afterStep = undefined;
    await Promise.all(listings);
    const shown = seen.slice(0, -1).filter((listed) => Object.keys(listed).length > 0);
    assert.deepEqual(shown, []);
    assert.ok(seen.length > 1);
    assert.deepEqual(await shim.listedSandboxes(), { [id]: 0 });
  });
});

describe("runPodSandbox() undoes everything", () => {
  for (const step of changes) {
    test(`when ${step} fails, and reports that error with its kind`, async () => {
      shim.world.journal.failNext(step, new ShimError("exhausted", "planned fault"));
      const message = /^run sandbox for pod "default\/web": .*planned fault$/;
      await rejectsWith(shim.runSandbox(), "exhausted", message);
      assertNothingLeft(shim);
      assert.deepEqual(await shim.listedSandboxes(), {});
      // The kubelet's next attempt succeeds.
      const id = await shim.runSandbox();
      assert.deepEqual(await shim.listedSandboxes(), { [id]: PodSandboxState.SANDBOX_READY });
    });
  }

  test("in reverse order", async () => {
    const { journal } = shim.world;
    journal.failNext("network.setUpPod", new ShimError("unknown", "planned fault"));
    journal.clear();
    await assert.rejects(shim.runSandbox());
    const after = journal.names().slice(journal.names().indexOf("network.setUpPod") + 1);
    const undone = after.filter((step) => /tearDown|remove/.test(step));
    assert.deepEqual(undone.slice(0, 2), ["network.tearDownPod", "engine.removeContainer"]);
    assert.deepEqual(undone.slice(2).sort(), ["checkpoints.remove", "records.remove"]);
  });

  for (const step of ["pauseImages.ensure", "engine.inspectContainer", ...changes]) {
    test(`when the caller leaves right after ${step}`, async () => {
      const { journal } = shim.world;
      const call = shim.call();
      journal.afterStep = (done) => {
        if (nameOf(done) === step) call.abort(new ShimError("cancelled", "the caller left"));
      };
      await rejectsWith(shim.runSandbox(runRequest(), call), "cancelled", /the caller left/);
      journal.afterStep = undefined;
      await untilNothingIsLeft(shim);
    });
  }

  test("when the caller leaves while the engine creates: the container of the late answer is removed", async () => {
    const call = shim.call();
    const held = shim.holdRequests("createContainer");
    const running = shim.runSandbox(runRequest(), call);
    await held.begun();
    call.abort(new ShimError("cancelled", "the caller left"));
    await rejectsWith(running, "cancelled");
    held.release();
    await until("it is made", () => shim.engine.containers.ids.length > 0);
    await untilNothingIsLeft(shim);
  });

  test("when the pause container ends at once", async () => {
    const { journal, engine } = shim.world;
    journal.afterStep = (step) => {
      if (nameOf(step) === "engine.startContainer") engine.containers.exit(name, 1);
    };
    const message = /the pause container is exited \(exit code 1\) right after its start/;
    await rejectsWith(shim.runSandbox(), "precondition", message);
    journal.afterStep = undefined;
    assertNothingLeft(shim);
  });

  test("and keeps checkpoint and record of a container that cannot be removed, which is NOTREADY", async () => {
    const { journal } = shim.world;
    journal.failNext("network.setUpPod", new ShimError("unknown", "first"));
    journal.failNext("engine.removeContainer", new ShimError("unknown", "second"));
    await rejectsWith(shim.runSandbox(), "unknown", /first/);
    const [id = ""] = shim.engine.containers.ids;
    assert.deepEqual(
      await shim.listedSandboxes(),
      { [id]: 1 },
      "it runs, but must not be taken for a ready one",
    );
    await shim.removeSandbox(id);
    assertNothingLeft(shim);
  });
});

describe("runPodSandbox() repeated", () => {
  test("with an equal request answers the same id and makes nothing, also after a restart", async () => {
    const id = await shim.runSandbox(runRequest({ labels: { a: "1", b: "2" } }));
    shim.world.journal.clear();
    // The order of the entries of a map does not count.
    const again = runRequest({ labels: { b: "2", a: "1" } });
    assert.equal(await shim.runSandbox(again), id);
    await using second = await shim.restart();
    assert.equal(await second.runSandbox(again), id);
    const made = ["engine.createContainer", "engine.startContainer", "network.setUpPod"];
    assert.deepEqual(shim.world.journal.names(...made), []);
  });

  test("with an equal request answers the same id when the sandbox got an alternative name", async () => {
    shim.engine.containers.create(name, { Image: pauseImage, Labels: {}, HostConfig: {} });
    const id = await shim.runSandbox();
    assert.equal(await shim.runSandbox(), id);
    assert.equal(shim.engine.containers.ids.length, 2);
  });

  test("concurrently makes one sandbox", async () => {
    const [first, second] = await Promise.all([shim.runSandbox(), shim.runSandbox()]);
    assert.equal(first, second);
    assert.equal(shim.engine.containers.ids.length, 1);
  });

  test("with another request is a conflict, and the one that runs stays as it is, in the lists as well", async () => {
    const id = await shim.runSandbox();
    shim.world.journal.clear();
    const lists: Promise<unknown>[] = [];
    shim.world.journal.afterStep = (step) => {
      if (nameOf(step) === "engine.inspectContainer") lists.push(shim.listedSandboxes());
    };
    const message = /a running sandbox already has the name/;
    await rejectsWith(shim.runSandbox(runRequest({ hostname: "other" })), "conflict", message);
    shim.world.journal.afterStep = undefined;
    assert.ok(lists.length > 0);
    for (const listed of await Promise.all(lists)) assert.deepEqual(listed, { [id]: 0 });
    const removals = shim.world.journal.names().filter((step) => /remove|stop|tearDown/i.test(step));
    assert.deepEqual(removals, []);
    assert.deepEqual(await shim.listedSandboxes(), { [id]: 0 });
  });
});

describe("runPodSandbox() with a taken name", () => {
  test("removes a dead sandbox with all that belongs to it", async () => {
    const { network, checkpoints, engine } = shim.world;
    const dead = await shim.runSandbox();
    engine.containers.exit(dead, 137);
    const id = await shim.runSandbox(runRequest({ hostname: "other" }));
    assert.notEqual(id, dead);
    assert.deepEqual(engine.containers.ids, [id]);
    assert.deepEqual([...checkpoints.stored.keys()], [id]);
    assert.deepEqual([...network.pods.keys()], [id]);
    assert.deepEqual(await shim.listedSandboxes(), { [id]: 0 });
    assert.equal(engine.containers.get(id).name, name);
  });

  test("takes a random suffix when a foreign container has it, and keeps that container", async () => {
    const { containers } = shim.engine;
    const foreign = containers.create(name, { Image: pauseImage, Labels: {}, HostConfig: {} });
    const id = await shim.runSandbox();
    assert.match(containers.get(id).name, new RegExp(`^${name}_[0-9a-f]{8}$`));
    assert.equal(containers.get(foreign).name, name);
    assert.deepEqual(await shim.listedSandboxes(), { [id]: 0 });
  });

  test("tries the name again when the conflicting container is gone by then", async () => {
    const conflictingId = "f".repeat(64);
    shim.engine.failNext("createContainer", new ShimError("conflict", "taken", { conflictingId }));
    const id = await shim.runSandbox();
    assert.equal(shim.engine.containers.get(id).name, name);
  });

  test("takes a random suffix when the engine does not say who has it", async () => {
    shim.engine.failNext("createContainer", new ShimError("conflict", "taken"));
    const id = await shim.runSandbox();
    assert.match(shim.engine.containers.get(id).name, /_[0-9a-f]{8}$/);
  });
});

describe("runPodSandbox() recovers", () => {
  const refused = new ShimError("unknown", "write oom_score_adj: permission denied");
  const cannotLower: FakeEngine["startFailure"] = (_, { HostConfig: { OomScoreAdj = 0 } }) =>
    OomScoreAdj < 0 ? refused : undefined;

  test("from a host that cannot lower OOM scores, once and for all", async () => {
    const { engine, journal } = shim.world;
    engine.startFailure = cannotLower;
    const id = await shim.runSandbox();
    assert.equal(engine.containers.get(id).body.HostConfig.OomScoreAdj, 0);
    assert.deepEqual(engine.containers.ids, [id]);
    assert.deepEqual([...shim.world.checkpoints.stored.keys()], [id]);
    const found = [...shim.services.records.pods.all()].map(({ sandboxId }) => sandboxId);
    assert.deepEqual(found, [id]);
    journal.clear();
    await shim.runSandbox(runRequest({ metadata: podMetadata("two") }));
    assert.equal(journal.names("engine.createContainer").length, 1, "the next sandbox is made right at once");
  });

  test("from such a host without the failed container in any list, even when its events are lost", async () => {
    shim.engine.startFailure = cannotLower;
    shim.engine.events$.policy = ({ action }) => (action === "create" ? [0] : []);
    const id = await shim.runSandbox();
    await turns(5);
    assert.deepEqual(shim.services.state.model.ids(), [id]);
    assert.deepEqual(await shim.listedSandboxes(), { [id]: 0 });
  });

  test("from a pause image that vanished", async () => {
    const { engine, journal } = shim.world;
    journal.clear();
    let lost = false;
    journal.afterStep = (step) => {
      if (nameOf(step) === "pauseImages.ensure" && !lost) engine.images.lose(pauseImage);
      lost = true;
    };
    const id = await shim.runSandbox();
    // The engine's events of the image invalidate, too.
    const steps = journal.names("pauseImages.ensure", "pauseImages.invalidate");
    const found = steps.filter((name, at) => name !== steps[at - 1]).slice(0, 3);
    assert.deepEqual(found, ["pauseImages.ensure", "pauseImages.invalidate", "pauseImages.ensure"]);
    assert.deepEqual(await shim.listedSandboxes(), { [id]: 0 });
  });
});

test("a sandbox whose set-up a crash interrupted stays NOTREADY after the restart", async () => {
  const { engine } = shim.world;
  const plain = await shim.runSandbox();
  const record = shim.services.records.pods.get(plain);
  assert.ok(record);
  await shim.services.records.pods.put({ ...record, phase: "creating" });
  await using second = await shim.restart();
  assert.deepEqual(await second.listedSandboxes(), { [plain]: 1 });
  assert.equal(engine.containers.get(plain).state.running, true);
});
