import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { turns, until } from "../../fakes/turns.js";
import { Harness } from "./sync-harness.js";

describe("A first inspect that hangs", () => {
  test("what another program makes is listed while the engine starts it and answers no inspect", async () => {
    await using harness = await Harness.live({ firstInspectMs: 1 });
    const { engine, model } = harness;
    engine.hangs = (verb) => verb === "inspectContainer";
    const id = harness.sandbox("a", { running: false });
    await until("it is listed", () => [...model.sandboxEntries()].length > 0);
    assert.deepEqual(
      [...model.sandboxEntries()].map(({ id, ready }) => [id, ready]),
      [[id, false]],
    );
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
