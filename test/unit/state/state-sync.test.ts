import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isKind, ShimError } from "../../../src/shim/base/errors.js";
import type { CreateBody } from "../../../src/shim/domain/create-body.js";
import { containerType, sandboxIdLabel, sandboxType, typeLabel } from "../../../src/shim/domain/labels.js";
import type { EngineEvent } from "../../../src/shim/ports/engine.js";
import { EngineLink } from "../../../src/shim/state/engine-link.js";
import { ReadModel } from "../../../src/shim/state/read-model.js";
import { StateSync, type StateSyncDeps, type StateSyncOptions } from "../../../src/shim/state/state-sync.js";
import { FakeEngine } from "../../fakes/fake-engine.js";
import { nodeFacts } from "../../fakes/node-facts.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { turns, until } from "../../fakes/turns.js";

const never = new AbortController().signal;

/** Limits that no test reaches unless it means to. */
const patient: StateSyncOptions = {
  resyncIntervalMs: 60_000,
  inspectTimeoutMs: 60_000,
  connectTimeoutMs: 60_000,
  reconnectMs: { first: 1, last: 2 },
};

class Harness implements AsyncDisposable {
  readonly engine = new FakeEngine();
  readonly model = new ReadModel(() => undefined);
  readonly link = new EngineLink();
  readonly log = recordingLog();
  readonly imageEvents: EngineEvent[] = [];
  readonly changes: string[] = [];
  readonly sync: StateSync;

  constructor(options: Partial<StateSyncOptions> = {}, deps: Partial<StateSyncDeps> = {}) {
    this.engine.images.add({ tags: ["busybox:latest"] });
    this.sync = new StateSync(
      {
        ...{ engine: this.engine, model: this.model, link: this.link, log: this.log },
        onConnect: () => Promise.resolve(),
        onLive: () => undefined,
        onImageEvent: (event) => this.imageEvents.push(event),
        onChange: (id, snapshot) =>
          this.changes.push(`${id.slice(0, 4)} ${snapshot?.state.status ?? "gone"}`),
        ...deps,
      },
      { ...patient, ...options },
    );
  }

  /** A sandbox in the engine, made by somebody else. */
  sandbox(name: string, { running = true } = {}): string {
    const id = this.engine.containers.create(
      `k8s_POD_${name}_default_uid_0`,
      body({ [typeLabel]: sandboxType }),
    );
    if (running) this.engine.containers.start(id);
    return id;
  }

  async live(): Promise<void> {
    await until("the link is live", () => this.link.state.phase === "live");
  }

  async start(): Promise<void> {
    this.sync.start();
    await this.live();
  }

  statusOf(id: string): string | undefined {
    return this.model.snapshot(id)?.state.status;
  }

  messages(level: string): readonly string[] {
    return this.log.lines.filter((line) => line.level === level).map((line) => line.message);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.sync.stop();
  }
}

function body(labels: Readonly<Record<string, string>>): CreateBody {
  return { Image: "busybox", Labels: labels, HostConfig: {} };
}

describe("StateSync start", () => {
  test("subscribes before it lists, and is live when all is read", async () => {
    await using harness = new Harness();
    const id = harness.sandbox("a");
    await harness.start();
    const order = harness.engine.journal.names();
    assert.deepEqual(order, [
      "engine.connect",
      "engine.events",
      "engine.listContainers",
      "engine.inspectContainer",
    ]);
    assert.equal(harness.statusOf(id), "running");
  });

  test("calls onConnect before the model is live, and onLive afterwards", async () => {
    const seen: string[] = [];
    const link = new EngineLink();
    await using harness = new Harness(
      {},
      {
        link,
        onConnect: () => Promise.resolve(void seen.push(`connect while ${link.state.phase}`)),
        onLive: () => seen.push(`live while ${link.state.phase}`),
      },
    );
    harness.sync.start();
    await until("the link is live", () => link.state.phase === "live");
    assert.deepEqual(seen, ["connect while recovering", "live while live"]);
  });

  test("an onConnect that throws counts as a lost engine, and is tried again", async () => {
    let attempts = 0;
    const onConnect = (): Promise<void> =>
      (attempts += 1) === 1
        ? Promise.reject(new ShimError("precondition", "wrong cgroup driver"))
        : Promise.resolve();
    await using harness = new Harness({}, { onConnect });
    await harness.start();
    assert.equal(attempts, 2);
    const lost = harness.log.lines.find((line) => line.message === "engine lost");
    assert.equal(lost?.fields["err"], "wrong cgroup driver");
  });

  test("containers of nobody are never inspected", async () => {
    await using harness = new Harness();
    harness.engine.containers.create("stranger", body({}));
    await harness.start();
    assert.deepEqual(harness.engine.journal.names("engine.inspectContainer"), []);
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
    const container = engine.containers.create(
      "k8s_my_main_a_b_default_u_0",
      body({ [typeLabel]: containerType, [sandboxIdLabel]: "?" }),
    );
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
  test("follows what others do, told by events", async () => {
    await using harness = new Harness();
    await harness.start();
    const { engine } = harness;
    const id = harness.sandbox("a");
    await until("it is seen running", () => harness.statusOf(id) === "running");
    engine.containers.exit(id, 1);
    await until("it is seen exited", () => harness.statusOf(id) === "exited");
    engine.containers.remove(id, { force: false });
    await until("it is gone", () => harness.statusOf(id) === undefined);
    assert.equal(harness.changes.at(-1), `${id.slice(0, 4)} gone`);
  });

  test("a resync heals lost events", async () => {
    await using harness = new Harness({ resyncIntervalMs: 5 });
    const { engine } = harness;
    const [kept, ended, removed] = [harness.sandbox("a"), harness.sandbox("b"), harness.sandbox("c")];
    await harness.start();
    engine.events$.policy = () => [];
    engine.containers.exit(ended, 3);
    engine.containers.remove(removed, { force: true });
    const added = harness.sandbox("d");
    await until(
      "all is healed",
      () => harness.statusOf(removed) === undefined && harness.statusOf(added) === "running",
    );
    assert.deepEqual([harness.statusOf(kept), harness.statusOf(ended)], ["running", "exited"]);
  });

  test("a resync that finds nothing changed inspects nothing", async () => {
    await using harness = new Harness({ resyncIntervalMs: 1 });
    harness.sandbox("a");
    await harness.start();
    harness.engine.journal.clear();
    await until(
      "it was listed again",
      () => harness.engine.journal.names("engine.listContainers").length >= 3,
    );
    assert.deepEqual(harness.engine.journal.names("engine.inspectContainer"), []);
  });

  test("one hanging inspect makes only its own status stale", async () => {
    await using harness = new Harness({ inspectTimeoutMs: 100 });
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

  test("one hanging inspect does not keep the model from becoming live", async () => {
    await using harness = new Harness({ inspectTimeoutMs: 100 });
    const [stuck, fine] = [harness.sandbox("a"), harness.sandbox("b")];
    harness.engine.hangs = (verb, [id]) => verb === "inspectContainer" && id === stuck;
    await harness.start();
    assert.deepEqual([harness.statusOf(stuck), harness.statusOf(fine)], [undefined, "running"]);
  });

  test("image events go to their callback and inspect nothing", async () => {
    await using harness = new Harness();
    await harness.start();
    await turns(5);
    harness.engine.journal.clear();
    harness.imageEvents.length = 0;
    harness.engine.images.add({ tags: ["new:1"] });
    await until("the event is there", () => harness.imageEvents.length > 0);
    assert.deepEqual(harness.imageEvents, [{ type: "image", action: "pull", id: "new:1" }]);
    assert.deepEqual(harness.engine.journal.names(), []);
  });

  test("refresh() answers what the engine says now, events or not", async () => {
    await using harness = new Harness();
    await harness.start();
    harness.engine.events$.policy = () => [];
    const id = harness.sandbox("a");
    assert.equal((await harness.sync.refresh(id))?.state.status, "running");
    harness.engine.containers.remove(id, { force: true });
    assert.equal(await harness.sync.refresh(id), undefined);
    assert.deepEqual(harness.model.ids(), []);
  });

  test("refresh() fails with the engine's error and leaves the entry as it was", async () => {
    await using harness = new Harness();
    const id = harness.sandbox("a");
    await harness.start();
    harness.engine.failNext("inspectContainer", new ShimError("unknown", "engine is confused"));
    await assert.rejects(harness.sync.refresh(id), /engine is confused/);
    assert.equal(harness.statusOf(id), "running");
  });
});

describe("StateSync when the link breaks", () => {
  test("a broken event stream makes the link recover, and what happened meanwhile is seen", async () => {
    await using harness = new Harness();
    const { engine, link } = harness;
    const phases: string[] = [];
    const [ended, removed, restarted] = [harness.sandbox("a"), harness.sandbox("b"), harness.sandbox("c")];
    await harness.start();
    const set = link.set.bind(link);
    link.set = (state) => {
      phases.push(state.phase);
      set(state);
    };
    const pidBefore = harness.model.snapshot(restarted)?.state.pid;
    // No event will tell: only the comparison after the reconnect can.
    engine.events$.policy = () => [];
    engine.events$.breakAll(new ShimError("unavailable", "connection closed"));
    engine.containers.exit(ended, 1);
    engine.containers.remove(removed, { force: true });
    engine.containers.restart(restarted);
    const added = harness.sandbox("d");
    await until("the link is live again", () => phases.includes("live"));
    assert.deepEqual(phases, ["recovering", "live"]);
    assert.deepEqual(
      [ended, removed, added].map((id) => harness.statusOf(id)),
      ["exited", undefined, "running"],
    );
    assert.notEqual(
      pidBefore,
      harness.model.snapshot(restarted)?.state.pid,
      "a container that runs again is another process",
    );
  });

  test("a lost engine makes reads fail unavailable with the reason, until it is back", async () => {
    await using harness = new Harness();
    const { engine, link } = harness;
    const id = harness.sandbox("a");
    await harness.start();
    engine.down();
    await until("the engine is lost", () => link.state.phase === "lost");
    await assert.rejects(
      link.live(never),
      (error) => isKind(error, "unavailable") && error.message.includes("connection refused"),
    );
    engine.containers.exit(id, 1);
    engine.facts = nodeFacts({ engineVersion: "29.0.0" });
    engine.up();
    await harness.live();
    assert.equal((await link.live(never)).engineVersion, "29.0.0");
    assert.equal(harness.statusOf(id), "exited");
  });

  test("logs one line per change, not one per attempt", async () => {
    await using harness = new Harness();
    const { engine } = harness;
    await harness.start();
    engine.down();
    await until("it was tried often", () => engine.journal.names("engine.connect").length > 5);
    engine.up();
    await harness.live();
    assert.deepEqual(harness.messages("error"), ["engine lost"]);
    assert.deepEqual(harness.messages("info"), ["engine live", "engine live"]);
  });

  test("an engine that dies between list and inspect never makes the model live", async () => {
    await using harness = new Harness();
    const { engine, link } = harness;
    const id = harness.sandbox("a");
    let wasLiveAndEmpty = false;
    const set = link.set.bind(link);
    link.set = (state) => {
      wasLiveAndEmpty ||= state.phase === "live" && harness.statusOf(id) === undefined;
      set(state);
    };
    engine.failNext("inspectContainer", new ShimError("unavailable", "connection reset"));
    await harness.start();
    assert.equal(wasLiveAndEmpty, false);
    assert.equal(harness.statusOf(id), "running");
  });

  test("an engine that freezes before it accepts the subscription is lost", async () => {
    await using harness = new Harness({ connectTimeoutMs: 50 });
    const { engine, link } = harness;
    engine.hangs = (verb) => verb === "events";
    harness.sync.start();
    await until("the engine is lost", () => link.state.phase === "lost");
    assert.match(link.state.phase === "lost" ? link.state.reason.message : "", /^subscribe to the events/);
    engine.hangs = () => false;
    await harness.live();
  });

  test("a live engine that freezes is found out by the next resync", async () => {
    await using harness = new Harness({ resyncIntervalMs: 1, connectTimeoutMs: 50 });
    await harness.start();
    harness.engine.freeze();
    await until("the engine is lost", () => harness.link.state.phase === "lost");
    harness.engine.up();
    await harness.live();
  });

  test("an event stream that ends at once every time does not make a busy loop", async () => {
    await using harness = new Harness({ reconnectMs: { first: 60_000, last: 60_000 } });
    await harness.start();
    harness.engine.events$.breakAll(new ShimError("unavailable", "closed"));
    await until("the link recovers", () => harness.link.state.phase === "recovering");
    await turns(20);
    assert.equal(harness.engine.journal.names("engine.connect").length, 1);
  });
});

describe("StateSync.stop()", () => {
  test("ends the subscription, and nothing is asked of the engine afterwards", async () => {
    const harness = new Harness({ resyncIntervalMs: 1 });
    await harness.start();
    await harness.sync.stop();
    assert.equal(harness.engine.events$.subscribers, 0);
    harness.engine.journal.clear();
    harness.sandbox("a");
    await turns(20);
    assert.deepEqual(harness.engine.journal.names(), []);
  });

  for (const verb of ["connect", "events", "listContainers", "inspectContainer"] as const) {
    test(`does not wait for an engine that hangs in ${verb}`, async () => {
      const harness = new Harness();
      harness.sandbox("a");
      harness.engine.hangs = (name) => name === verb;
      harness.sync.start();
      await until("it hangs", () => harness.engine.journal.names(`engine.${verb}`).length > 0);
      await turns(2);
      await harness.sync.stop();
      assert.equal(harness.engine.events$.subscribers, 0);
    });
  }

  test("does not wait for the next attempt to reach a lost engine", async () => {
    const harness = new Harness({ reconnectMs: { first: 60_000, last: 60_000 } });
    harness.engine.down();
    harness.sync.start();
    await until("the engine is lost", () => harness.link.state.phase === "lost");
    await harness.sync.stop();
  });
});
