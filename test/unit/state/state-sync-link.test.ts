import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { NodeFacts } from "../../../src/domain/node-facts.js";
import { ShimError } from "../../../src/lib/errors.js";
import { nodeFacts } from "../../fakes/node-facts.js";
import { rejectsWith } from "../../support/refusals.js";
import { turns, until } from "../../fakes/turns.js";
import { Harness } from "./sync-harness.js";

const never = new AbortController().signal;

/** The phases that the link goes through from now on. */
function phasesOf({ link }: Harness): readonly string[] {
  const phases: string[] = [];
  const set = link.set.bind(link);
  link.set = (state) => {
    phases.push(state.phase);
    set(state);
  };
  return phases;
}

describe("StateSync when the link breaks", () => {
  test("a broken event stream makes the link recover, and what happened meanwhile is seen", async () => {
    await using harness = new Harness();
    const { engine } = harness;
    const [ended, removed, restarted] = [harness.sandbox("a"), harness.sandbox("b"), harness.sandbox("c")];
    await harness.start();
    const phases = phasesOf(harness);
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
    const found = [ended, removed, added].map((id) => harness.statusOf(id));
    assert.deepEqual(found, ["exited", undefined, "running"]);
    assert.notEqual(pidBefore, harness.model.snapshot(restarted)?.state.pid, "it is another process");
  });

  test("a lost engine makes reads fail unavailable with the reason, until it is back", async () => {
    await using harness = new Harness();
    const { engine, link } = harness;
    const id = harness.sandbox("a");
    await harness.start();
    engine.down();
    await until("the engine is lost", () => link.state.phase === "lost");
    await rejectsWith(link.live(never), "unavailable", /connection refused/);
    engine.containers.exit(id, 1);
    engine.facts = nodeFacts({ engineVersion: "29.0.0" });
    engine.up();
    await harness.live();
    assert.equal((await link.live(never)).engineVersion, "29.0.0");
    assert.equal(harness.statusOf(id), "exited");
  });

  test("logs one line per change, not one per attempt", async () => {
    await using harness = await Harness.live();
    const { engine } = harness;
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
    await using harness = new Harness({ connectTimeoutMs: 300 });
    const { engine, link } = harness;
    engine.hangs = (verb) => verb === "events";
    harness.sync.start();
    await until("the engine is lost", () => link.state.phase === "lost");
    assert.match(link.state.phase === "lost" ? link.state.reason.message : "", /^subscribe to the events/);
    engine.hangs = () => false;
    await harness.live();
  });

  test("a live engine that freezes is found out by the next resync", async () => {
    await using harness = await Harness.live({ resyncIntervalMs: 1, connectTimeoutMs: 300 });
    harness.engine.freeze();
    await until("the engine is lost", () => harness.link.state.phase === "lost");
    harness.engine.up();
    await harness.live();
  });

  for (const state of ["compared", "lost"] as const) {
    test(`an engine that is ${state} again and again keeps it moving, what never returns does not`, async (t) => {
      let clockMs = performance.now();
      t.mock.method(performance, "now", () => clockMs);
      await using harness = await Harness.live({ resyncIntervalMs: 1 });
      if (state === "lost") harness.engine.down();
      clockMs += 6 * 60_000;
      await until("it moves", () => harness.sync.isMoving);
      await harness.sync.stop();
      clockMs += 6 * 60_000;
      assert.equal(harness.sync.isMoving, false);
    });
  }

  test("the model becomes live soon although the inspects of many containers hang", async () => {
    await using harness = new Harness({ inspectWaitMs: 1_000 });
    const { engine } = harness;
    // One after the other, eight at a time, they would keep it for longer than `live` waits.
    const stuck = Array.from({ length: 120 }, (_, index) => harness.sandbox(`stuck${index}`));
    engine.hangs = (verb) => verb === "inspectContainer";
    await harness.start();
    for (const id of stuck) assert.equal(harness.model.has(id), true);
    const asked = (): number => engine.journal.names("engine.inspectContainer").length;
    assert.equal(asked(), 32, "inspects at the same time");
    engine.hangs = () => false;
    engine.up();
    await until("all are read after all", () => harness.model.unsynced.pending === 0);
    assert.equal(asked(), stuck.length, "each is asked once");
  });

  test("a live engine that answers other requests than a comparison is slow, and stays live", async () => {
    await using harness = await Harness.live({ resyncIntervalMs: 1, retryMs: 1, connectTimeoutMs: 20 });
    const { engine, link } = harness;
    engine.hasAnswered = () => true;
    engine.hangs = (verb) => verb === "listContainers";
    const lists = (): number => engine.journal.names("engine.listContainers").length;
    const before = lists();
    await until("it was compared three times", () => lists() >= before + 3);
    assert.equal(link.state.phase, "live");
    assert.deepEqual(harness.messages("warn"), ["the engine is too slow for a comparison"]);
    const id = harness.sandbox("web");
    engine.hangs = () => false;
    await until("a comparison ends", () => harness.statusOf(id) === "running");
  });

  test("an event stream that ends at once every time does not make a busy loop", async () => {
    await using harness = await Harness.live({ reconnectMs: { first: 60_000, longest: 60_000 } });
    harness.engine.events$.breakAll(new ShimError("unavailable", "closed"));
    await until("the link recovers", () => harness.link.state.phase === "recovering");
    await turns(20);
    assert.equal(harness.engine.journal.names("engine.connect").length, 1);
  });
});

test("a subscriber that hangs at the connect is a failed connect, and what it does later is told so", async () => {
  const signals: AbortSignal[] = [];
  const engineConnected = (_facts: unknown, signal: AbortSignal): Promise<void> =>
    signals.push(signal) === 1 ? new Promise<never>(() => undefined) : Promise.resolve();
  await using harness = new Harness({ connectTimeoutMs: 300 }, { engineConnected });
  harness.sync.start();
  await until("the engine is lost", () => harness.link.state.phase === "lost");
  assert.equal(signals[0]?.aborted, true);
  await harness.live();
  assert.deepEqual(harness.messages("error"), ["engine lost"]);
});

describe("StateSync and events that say little", () => {
  const soon = { retryMs: 1 };
  const unknown = { type: "unknown", action: "", id: "" } as const;

  test("one of which nothing is known costs one comparison, and not the link", async () => {
    await using harness = new Harness(soon);
    const id = harness.sandbox("a");
    await harness.start();
    harness.engine.events$.policy = () => [];
    harness.engine.containers.exit(id, 1);
    harness.engine.events$.policy = () => [0];
    harness.engine.journal.clear();
    harness.engine.events$.emit(unknown);
    await until("the change is seen", () => harness.statusOf(id) === "exited");
    const asked = harness.engine.journal.names();
    assert.deepEqual(asked, ["engine.listContainers", "engine.inspectContainer"]);
    assert.equal(harness.link.state.phase, "live");
  });

  test("many of them cost one comparison", async () => {
    await using harness = await Harness.live({ retryMs: 300 });
    harness.engine.journal.clear();
    for (let count = 0; count < 100; count += 1) harness.engine.events$.emit(unknown);
    await until("it was compared", () => harness.engine.journal.names().length > 0);
    await turns(20);
    assert.deepEqual(harness.engine.journal.names(), ["engine.listContainers"]);
  });

  test("one that comes during a comparison makes another one", async () => {
    await using harness = await Harness.live(soon);
    const { engine } = harness;
    engine.journal.clear();
    engine.hangs = (verb) => verb === "listContainers";
    engine.events$.emit(unknown);
    await until("it is being compared", () => engine.journal.names().length === 1);
    engine.events$.emit(unknown);
    await turns(5);
    engine.hangs = () => false;
    engine.up();
    await until("it was compared again", () => engine.journal.names().length === 2);
  });
});

describe("StateSync when the engine reloads its configuration", () => {
  const reload = { type: "daemon", action: "reload", id: "FAKE" } as const;
  const runsc = { name: "runsc", kind: "ownShim", recursiveReadOnly: true } as const;

  test("the facts are read again, and the link stays live", async () => {
    let connects = 0;
    const engineConnected = async (): Promise<void> => void (connects += 1);
    await using harness = await Harness.live({ retryMs: 1 }, { engineConnected });
    const phases = phasesOf(harness);
    harness.engine.facts = nodeFacts({ runtimes: [...nodeFacts().runtimes, runsc] });
    harness.engine.events$.emit(reload);
    await until("the runtime is known", () => harness.link.facts?.runtimes.length === 2);
    assert.deepEqual([phases, connects], [["live"], 1]);
    assert.deepEqual(harness.messages("info"), ["engine live", "engine configuration reloaded"]);
  });

  test("an engine whose lasting facts are others is connected to anew", async () => {
    const drivers: string[] = [];
    const engineConnected = async ({ cgroupDriver }: NodeFacts): Promise<void> =>
      void drivers.push(cgroupDriver);
    await using harness = await Harness.live({ retryMs: 1 }, { engineConnected });
    harness.engine.facts = nodeFacts({ cgroupDriver: "systemd" });
    harness.engine.events$.emit(reload);
    await until("it is live with the other driver", () => harness.link.facts?.cgroupDriver === "systemd");
    await harness.live();
    assert.deepEqual(drivers, ["cgroupfs", "systemd"]);
  });
});

test("a description that is too large is said once for each container, which is treated as any other", async () => {
  await using harness = new Harness();
  const [large, other] = [harness.sandbox("a"), harness.sandbox("b")];
  const inspect = harness.engine.containers.inspect.bind(harness.engine.containers);
  harness.engine.containers.inspect = (id) => {
    const snapshot = inspect(id);
    return snapshot === undefined || id !== large ? snapshot : { ...snapshot, isTrimmed: true };
  };
  await harness.start();
  await harness.sync.refresh(large);
  assert.deepEqual([harness.statusOf(large), harness.statusOf(other)], ["running", "running"]);
  const text = "container description too large, labels and annotations are left out";
  assert.deepEqual(harness.messages("warn"), [text]);
});

describe("StateSync.stop()", () => {
  test("during a connect ends it, and the model never becomes live", async () => {
    let connected!: () => void;
    const engineConnected = (): Promise<void> => new Promise((resolve) => (connected = resolve));
    const harness = new Harness({}, { engineConnected });
    harness.sync.start();
    await until("it connects", () => harness.engine.journal.names("engine.connect").length > 0);
    await turns(5);
    await harness.sync.stop();
    connected();
    await turns(20);
    assert.equal(harness.link.state.phase, "recovering");
    assert.equal(harness.engine.events$.subscribers, 0);
  });

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
    const harness = new Harness({ reconnectMs: { first: 60_000, longest: 60_000 } });
    harness.engine.down();
    harness.sync.start();
    await until("the engine is lost", () => harness.link.state.phase === "lost");
    await harness.sync.stop();
  });
});
