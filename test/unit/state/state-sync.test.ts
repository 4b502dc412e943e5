import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { sleep } from "../../../src/lib/abort.js";
import { ShimError } from "../../../src/lib/errors.js";
import { containerType, sandboxIdLabel, sandboxType, typeLabel } from "../../../src/domain/labels.js";
import { turns, until } from "../../fakes/turns.js";
import { body, Harness } from "./sync-harness.js";

describe("StateSync start", () => {
  test("subscribes before it lists, and is live when all is read", async () => {
    await using harness = await Harness.with("running");
    const { id } = harness;
    const order = harness.engine.journal.names();
    const expected = ["connect", "events", "listContainers", "inspectContainer"];
    assert.deepEqual(
      order,
      expected.map((verb) => `engine.${verb}`),
    );
    assert.equal(harness.statusOf(id), "running");
  });

  test("tells subscribers of the connect before the model is live, and that it is live afterwards", async () => {
    const seen: string[] = [];
    const note = (what: string): void => void seen.push(`${what} while ${harness.link.state.phase}`);
    const engineConnected = async (): Promise<void> => note("connect");
    await using harness: Harness = new Harness({}, { engineConnected, engineLive: () => note("live") });
    await harness.start();
    assert.deepEqual(seen, ["connect while recovering", "live while live"]);
  });

  test("a subscriber that throws at the connect counts as a lost engine, and is tried again", async () => {
    let attempts = 0;
    const engineConnected = async (): Promise<void> => {
      if ((attempts += 1) === 1) throw new ShimError("precondition", "wrong cgroup driver");
    };
    await using harness = await Harness.live({}, { engineConnected });
    assert.equal(attempts, 2);
    const lost = harness.log.lines.find((line) => line.message === "engine lost");
    assert.equal(lost?.fields["err"], "wrong cgroup driver");
  });

  test("helpers of this program are not taken for what an image has made a sandbox, and no image is asked", async () => {
    await using harness = new Harness();
    const { engine } = harness;
    const id = engine.containers.create("dockershim-image-0", body({ [typeLabel]: "" }));
    await harness.start();
    await harness.sync.refresh(id);
    assert.deepEqual(engine.journal.names("engine.inspectImage"), []);
    assert.deepEqual(harness.model.ids(), []);
  });

  test("containers that have the type of a sandbox from their image alone are not even expected", async () => {
    await using harness = new Harness({ inspectWaitMs: 300 });
    const { engine } = harness;
    const labels = { [typeLabel]: sandboxType, "io.kubernetes.pod.name": "a" };
    engine.images.add({ tags: ["posing:1"], snapshot: { labels } });
    engine.containers.create("quirky_bohr", { ...body({}), Image: "posing:1" });
    const id = harness.sandbox("a");
    engine.hangs = (verb) => verb === "inspectContainer";
    await harness.start();
    assert.deepEqual(harness.model.ids(), [id]);
  });

  test("reads sandboxes before containers, however slow they are", async () => {
    await using harness = new Harness();
    const { engine, model } = harness;
    const pod = {
      "io.kubernetes.pod.name": "a_b",
      "io.kubernetes.pod.namespace": "default",
      "io.kubernetes.pod.uid": "u",
    };
    // Made in this order, so that the list has the container first.
    const labels = { [typeLabel]: containerType, [sandboxIdLabel]: "?" };
    const container = engine.containers.create("k8s_my_main_a_b_default_u_0", body(labels));
    const sandbox = engine.containers.create(
      "k8s_POD_a_b_default_u_0",
      body({ [typeLabel]: sandboxType, ...pod }),
    );
    // A container that names its sandbox can only be made after it; the fake lets the label follow.
    Object.assign(engine.containers.get(container).body.Labels, { [sandboxIdLabel]: sandbox });
    let held = true;
    engine.hangs = (verb, [id]) => verb === "inspectContainer" && id === sandbox && held;
    harness.sync.start();
    await until("the sandbox is asked for", () => engine.journal.names("engine.inspectContainer").length > 0);
    await turns(5);
    held = false;
    engine.up();
    await harness.live();
    assert.deepEqual(model.container(container)?.identity, { name: "my_main", attempt: 0 });
  });
});

describe("StateSync while live", () => {
  test("a resync heals lost events", async () => {
    await using harness = new Harness({ resyncIntervalMs: 5 });
    const { engine } = harness;
    const [kept, ended, removed] = [harness.sandbox("a"), harness.sandbox("b"), harness.sandbox("c")];
    await harness.start();
    engine.events$.policy = () => [];
    engine.containers.exit(ended, 3);
    engine.containers.remove(removed, { force: true });
    const added = harness.sandbox("d");
    const states = (): readonly unknown[] => [kept, ended, removed, added].map((id) => harness.statusOf(id));
    await until("all is healed", () => states().join() === "running,exited,,running");
  });

  test("a resync finds the failed start of another program, which no event and no list tells of", async () => {
    await using harness = new Harness({ resyncIntervalMs: 5 });
    const { engine, model } = harness;
    const id = harness.sandbox("a", { running: false });
    await harness.start();
    engine.events$.policy = () => [];
    engine.containers.failStart(id, "no such program");
    await until("the failure is known", () => model.snapshot(id)?.state.exitCode === 127);
    engine.journal.clear();
    await until("it was listed again", () => engine.journal.names("engine.listContainers").length >= 3);
    assert.deepEqual(engine.journal.names("engine.inspectContainer"), []);
  });

  test("a list that is long in coming is waited for as long as it comes", async () => {
    await using harness = new Harness({ connectTimeoutMs: 500 });
    const list = harness.engine.listContainers.bind(harness.engine);
    harness.engine.listContainers = async (filter, signal, onProgress) => {
      for (let part = 0; part < 8; part += 1) {
        await sleep(100, signal);
        onProgress?.();
      }
      return list(filter, signal);
    };
    await harness.start();
    assert.equal(harness.engine.journal.names("engine.connect").length, 1);
  });

  test("one hanging inspect makes only its own status stale", async () => {
    await using harness = new Harness({ inspectTimeoutMs: 500 });
    const { engine } = harness;
    const [stuck, fine] = [harness.sandbox("a"), harness.sandbox("b")];
    await harness.start();
    engine.hangs = (verb, [id]) => verb === "inspectContainer" && id === stuck;
    engine.containers.exit(stuck, 1);
    engine.containers.exit(fine, 1);
    await until("the other one is seen exited", () => harness.statusOf(fine) === "exited");
    await until("the hanging inspect is given up", () => harness.messages("warn").length > 0);
    assert.equal(harness.statusOf(stuck), "running");
    assert.equal(harness.link.state.phase, "live");
    engine.hangs = () => false;
    await harness.sync.refresh(stuck);
    assert.equal(harness.statusOf(stuck), "exited");
  });

  test("an inspect that hangs at the start delays others only for a while, and ends in the background", async () => {
    await using harness = new Harness({ inspectWaitMs: 50 });
    const { engine, model } = harness;
    const [stuck, fine] = [harness.sandbox("a"), harness.sandbox("b")];
    engine.hangs = (verb, [id]) => verb === "inspectContainer" && id === stuck;
    await harness.start();
    assert.deepEqual([harness.statusOf(stuck), harness.statusOf(fine)], [undefined, "running"]);
    assert.equal(model.has(stuck), true);
    assert.deepEqual([...model.sandboxEntries()].map(({ id }) => id).sort(), [stuck, fine].sort());
    engine.hangs = () => false;
    engine.up();
    await until("it is read after all", () => harness.statusOf(stuck) === "running");
  });

  test("an inspect that hangs after a reconnect leaves its container as it was known", async () => {
    await using harness = new Harness({ inspectWaitMs: 50 });
    const { engine, model, link } = harness;
    const stuck = harness.sandbox("a");
    await harness.start();
    engine.hangs = (verb) => verb === "inspectContainer";
    engine.events$.breakAll(new ShimError("unavailable", "closed"));
    await until("the link recovers", () => link.state.phase === "recovering");
    await harness.live();
    assert.deepEqual([harness.statusOf(stuck), model.isStale(stuck)], ["running", true]);
    engine.hangs = () => false;
    engine.up();
    await until("it is known anew", () => !model.isStale(stuck));
  });

  test("a resync asks again about what could not be read, although its state is the same", async () => {
    await using harness = new Harness({ resyncIntervalMs: 5 });
    const { engine } = harness;
    const [pending, stale] = [harness.sandbox("a"), harness.sandbox("b")];
    engine.inspectFailure = (id) => (id === pending ? new ShimError("timeout", "too slow") : undefined);
    await harness.start();
    engine.events$.policy = () => [];
    engine.inspectFailure = () => new ShimError("timeout", "too slow");
    await assert.rejects(harness.sync.refresh(stale), /too slow/);
    const pid = harness.model.snapshot(stale)?.state.pid;
    engine.containers.restart(stale);
    engine.inspectFailure = () => undefined;
    const isRead = (): boolean => harness.statusOf(pending) === "running" && !harness.model.isStale(stale);
    await until("both are read", isRead);
    assert.notEqual(harness.model.snapshot(stale)?.state.pid, pid);
  });

  test("what is removed while a list is under way does not come back with it", async () => {
    await using harness = new Harness({ resyncIntervalMs: 1 });
    const { engine, model } = harness;
    const id = harness.sandbox("a");
    await harness.start();
    engine.events$.policy = () => [];
    let isRemoved = false;
    const list = engine.listContainers.bind(engine);
    engine.listContainers = async (filter, signal) => {
      const answer = await list(filter, signal);
      if (!isRemoved) {
        // The answer is on its way.
        engine.containers.remove(id, { force: true });
        await harness.sync.refresh(id);
        isRemoved = true;
      }
      return answer;
    };
    const expect = model.expect.bind(model);
    const expected: string[] = [];
    model.expect = (listed) => {
      if (!model.has(listed.id)) expected.push(listed.id);
      expect(listed);
    };
    await until("it was removed", () => isRemoved);
    await turns(20);
    assert.deepEqual(expected, []);
  });

  test("image events are told to subscribers, and inspect nothing", async () => {
    await using harness = await Harness.live();
    await turns(5);
    harness.engine.journal.clear();
    harness.imageEvents = 0;
    harness.engine.images.add({ tags: ["new:1"] });
    await until("the event is there", () => harness.imageEvents > 0);
    assert.equal(harness.imageEvents, 1);
    assert.deepEqual(harness.engine.journal.names(), []);
  });

  test("creation and removal of containers outside of pods go to their callback and inspect nothing", async () => {
    await using harness = await Harness.live();
    await turns(5);
    harness.engine.journal.clear();
    const id = harness.engine.containers.create("foreign", body({}));
    harness.engine.containers.start(id);
    harness.engine.containers.remove(id, { force: true });
    await until("both events are there", () => harness.otherContainers === 2);
    await turns(5);
    assert.equal(harness.otherContainers, 2);
    assert.deepEqual(harness.engine.journal.names(), []);
  });

  test("refresh() ends with its caller, and what it was about is read a little later", async () => {
    await using harness = new Harness({ retryMs: 1 });
    const id = harness.sandbox("a");
    await harness.start();
    const { engine } = harness;
    engine.events$.policy = () => [];
    engine.containers.exit(id, 0);
    engine.hangs = (verb) => verb === "inspectContainer";
    const caller = new AbortController();
    const refreshing = harness.sync.refresh(id, caller.signal);
    caller.abort(new ShimError("cancelled", "the caller left"));
    await assert.rejects(refreshing, /the caller left/);
    engine.hangs = () => false;
    engine.up();
    await until("it is read", () => harness.statusOf(id) === "exited");
    engine.containers.remove(id, { force: true });
    assert.equal(await harness.sync.refresh(id), undefined);
    assert.deepEqual(harness.model.ids(), []);
  });

  test("an inspect that failed is tried again soon, and reported once", async () => {
    await using harness = new Harness({ retryMs: 1 });
    const id = harness.sandbox("a");
    await harness.start();
    let failures = 4;
    harness.engine.inspectFailure = () =>
      failures-- > 0 ? new ShimError("unknown", "the engine's answer is not JSON") : undefined;
    harness.engine.containers.exit(id, 0);
    await until("the exit is seen", () => harness.statusOf(id) === "exited");
    assert.equal(harness.model.isStale(id), false);
    const found = harness.messages("warn").filter((message) => message.startsWith("inspect failed"));
    assert.deepEqual(found, ["inspect failed, its status is stale"]);
  });
});

describe("A first inspect that hangs", () => {
  test("what another program makes is listed while the engine starts it and answers no inspect", async () => {
    await using harness = await Harness.live({ firstInspectMs: 1 });
    const { engine, model } = harness;
    engine.hangs = (verb) => verb === "inspectContainer";
    const id = harness.sandbox("a", { running: false });
    await until("it is listed", () => [...model.sandboxEntries()].length > 0);
    const found = [...model.sandboxEntries()].map(({ id, ready }) => [id, ready]);
    assert.deepEqual(found, [[id, false]]);
    engine.containers.start(id);
    engine.hangs = () => false;
    engine.up();
    await until("it is read", () => harness.statusOf(id) === "running");
    assert.deepEqual(model.pendingIds(), []);
  });

  test("what is inspected while the list is asked about it is not stale", async () => {
    await using harness = await Harness.live({ firstInspectMs: 1 });
    const { engine, model } = harness;
    engine.journal.clear();
    engine.hangs = () => true;
    const id = harness.sandbox("a", { running: false });
    await until("the list is asked", () => engine.journal.names("engine.listContainers").length > 0);
    engine.hangs = (verb) => verb === "listContainers";
    engine.up();
    await until("it is read", () => harness.statusOf(id) === "created");
    let listed = false;
    engine.journal.afterStep = ({ verb }) => (listed ||= verb === "listContainers");
    engine.hangs = () => false;
    engine.up();
    await until("the list is read", () => listed);
    await turns(5);
    assert.equal(model.isStale(id), false);
  });
});
