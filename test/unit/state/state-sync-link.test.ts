import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isKind, ShimError } from "../../../src/shim/base/errors.js";
import { nodeFacts } from "../../fakes/node-facts.js";
import { turns, until } from "../../fakes/turns.js";
import { Harness } from "./sync-harness.js";

const never = new AbortController().signal;

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
    await using harness = new Harness({ resyncIntervalMs: 1, connectTimeoutMs: 300 });
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
