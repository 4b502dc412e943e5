import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import { nameOf } from "../../../fakes/journal.js";
import { listedSandboxes, rejectsWith, runSandbox } from "../../../fakes/pods.js";
import { runRequest } from "../../../fakes/requests.js";
import { pauseImage, shimOfEachTest } from "../../../fakes/services.js";
import { turns } from "../../../fakes/turns.js";

const shim = shimOfEachTest();

const name = "k8s_POD_web_default_uid-1_0";

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
    await rejectsWith(
      runSandbox(shim, runRequest({ hostname: "other" })),
      "conflict",
      /a running sandbox already has the name/,
    );
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
    assert.deepEqual(
      [...shim.services.records.pods.all()].map(({ sandboxId }) => sandboxId),
      [id],
    );
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
