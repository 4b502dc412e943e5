import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../src/lib/errors.js";
import { OwnChanges } from "../../../src/shim/state/own-changes.js";
import { turns, until, withResolvers } from "../../fakes/turns.js";
import { Harness } from "./sync-harness.js";

/** Starts the container as an RPC does. */
async function startAsCall(harness: Harness, id: string): Promise<void> {
  using _ = harness.sync.changing(nameOf(harness, id));
  await harness.engine.startContainer(id, new AbortController().signal);
  await turns(5);
  await harness.sync.refresh(id);
}

function nameOf({ engine }: Harness, id: string): string {
  return engine.containers.get(id).name;
}

function inspectsOf({ engine }: Harness): number {
  return engine.journal.names("engine.inspectContainer").length;
}

/** Events wait for a millisecond; the model knows no container. */
function withShortWait() {
  const refreshed: string[] = [];
  const model = { has: () => false, isStale: () => false, snapshot: () => undefined };
  const deps = { model, refresh: (id: string) => refreshed.push(id), isRefreshing: () => false };
  return { changes: new OwnChanges(deps, { holdMs: 1, lingerMs: 1_000 }), refreshed };
}

describe("a container that a call changes", () => {
  for (const [when, delay] of [
    ["before", 0],
    ["after", 30],
  ] as const) {
    test(`is inspected once when its events arrive ${when} the refresh of the call`, async () => {
      await using harness = await Harness.with("created");
      const { id } = harness;
      const before = inspectsOf(harness);
      harness.engine.events$.policy = () => [delay];
      await startAsCall(harness, id);
      await turns(60);
      assert.equal(inspectsOf(harness) - before, 1);
      assert.equal(harness.statusOf(id), "running");
    });
  }

  test("is inspected again when another program changes it during the call", async () => {
    await using harness = await Harness.with("created");
    const { id } = harness;
    {
      using _ = harness.sync.changing(nameOf(harness, id));
      await harness.engine.startContainer(id, new AbortController().signal);
      await harness.sync.refresh(id);
      harness.engine.containers.exit(id, 7);
      await turns(10);
      assert.equal(harness.statusOf(id), "running");
    }
    await until("the exit is seen", () => harness.model.snapshot(id)?.state.exitCode === 7);
  });

  test("is inspected again when it was restarted between the call's refresh and its event", async () => {
    await using harness = await Harness.with("created");
    const { id } = harness;
    harness.engine.events$.policy = () => [10];
    await startAsCall(harness, id);
    const before = harness.model.snapshot(id)?.state.pid;
    harness.engine.containers.restart(id);
    await until("the new process is seen", () => harness.model.snapshot(id)?.state.pid !== before);
  });

  test("is inspected when the refresh of the call has failed", async () => {
    await using harness = await Harness.with("created");
    const { id } = harness;
    harness.engine.failNext("inspectContainer", new ShimError("timeout", "too slow"));
    await assert.rejects(startAsCall(harness, id), /too slow/);
    await until("the start is seen", () => harness.statusOf(id) === "running");
  });

  test("is inspected without the end of the call when that takes long", async () => {
    const { changes, refreshed } = withShortWait();
    using _ = changes.begin("web");
    const held = changes.takes({ type: "container", action: "die", id: "1", name: "web" });
    assert.equal(held, true);
    await until("it is inspected", () => refreshed.length === 1);
  });

  test("is not inspected before the end of the call that made it, however long it starts", async () => {
    const { changes, refreshed } = withShortWait();
    {
      using _ = changes.begin("web");
      changes.takes({ type: "container", action: "create", id: "1", name: "web" });
      changes.takes({ type: "container", action: "die", id: "2", name: "web" });
      await until("the wait of the other event ends", () => refreshed.length > 0);
      assert.deepEqual(refreshed, ["2"]);
    }
    assert.deepEqual(refreshed, ["2", "1"]);
  });

  test("takes no event of another container, nor one that comes long after the change", () => {
    const model = { has: () => false, isStale: () => false, snapshot: () => undefined };
    const deps = { model, refresh: () => undefined, isRefreshing: () => false };
    const changes = new OwnChanges(deps, { holdMs: 1_000, lingerMs: -1 });
    const event = { type: "container", action: "destroy", id: "1", name: "web" } as const;
    {
      using _ = changes.begin("other");
      assert.equal(changes.takes(event), false);
    }
    changes.begin("web")[Symbol.dispose]();
    assert.equal(changes.takes(event), false);
  });

  test("that two calls change waits for the end of both", async () => {
    await using harness = await Harness.with("running");
    const { id } = harness;
    const name = nameOf(harness, id);
    const first = harness.sync.changing(name);
    const second = harness.sync.changing(name);
    harness.engine.containers.exit(id, 3);
    first[Symbol.dispose]();
    await turns(10);
    assert.equal(harness.statusOf(id), "running");
    second[Symbol.dispose]();
    await until("the exit is seen", () => harness.statusOf(id) === "exited");
  });
});

describe("a container that a call removes", () => {
  test("is not inspected, neither by the call nor by its events", async () => {
    await using harness = await Harness.with("running");
    const { id } = harness;
    const before = inspectsOf(harness);
    harness.engine.events$.policy = () => [0, 30];
    await harness.sync.remove(id, { force: true }, new AbortController().signal);
    assert.equal(harness.model.has(id), false);
    await turns(60);
    assert.equal(inspectsOf(harness), before);
    assert.deepEqual(harness.changes.slice(-1), [`${id.slice(0, 4)} gone`]);
  });

  test("does not come back by an inspect that began before the removal", async () => {
    await using harness = await Harness.with("running");
    const { id } = harness;
    harness.engine.events$.policy = () => [];
    const inspect = harness.engine.inspectContainer.bind(harness.engine);
    const { promise: released, resolve: release } = withResolvers();
    harness.engine.inspectContainer = async (...args) => {
      const seen = await inspect(...args);
      await released;
      return seen;
    };
    const late = harness.sync.refresh(id);
    await turns(5);
    const removed = harness.sync.remove(id, { force: true }, new AbortController().signal);
    await turns(5);
    release();
    await Promise.all([late, removed]);
    assert.equal(harness.model.has(id), false);
  });

  test("is inspected when the engine had no such container: another program may have removed it", async () => {
    await using harness = await Harness.with("running");
    const { id } = harness;
    const before = inspectsOf(harness);
    harness.engine.containers.lose(id);
    await harness.sync.remove(id, { force: true }, new AbortController().signal);
    assert.equal(inspectsOf(harness) - before, 1);
    assert.equal(harness.model.has(id), false);
  });
});

/** The engine's answers to inspects arrive late. */
function delayInspects({ engine }: Harness): void {
  const inspect = engine.inspectContainer.bind(engine);
  engine.inspectContainer = async (...args) => {
    const snapshot = await inspect(...args);
    await turns(30);
    return snapshot;
  };
}

describe("an event that arrives while an older inspect is under way", () => {
  test("is not answered by the state before: a container that another program starts, and that ends at once", async () => {
    await using harness = await Harness.with("running");
    const { id } = harness;
    {
      using _ = harness.sync.changing(nameOf(harness, id));
      await harness.engine.stopContainer(id, 0, new AbortController().signal);
      await harness.sync.refresh(id);
    }
    await turns(10);
    delayInspects(harness);
    harness.engine.containers.start(id);
    await turns(8);
    harness.engine.containers.exit(id, 1);
    await until("the exit is seen", () => harness.model.snapshot(id)?.state.exitCode === 1);
  });

  test("is not answered by the state before: a container that another program stops and starts", async () => {
    await using harness = await Harness.with("created");
    const { id } = harness;
    await startAsCall(harness, id);
    await turns(10);
    const before = harness.model.snapshot(id)?.state.pid;
    delayInspects(harness);
    harness.engine.containers.exit(id, 1);
    await turns(8);
    harness.engine.containers.start(id);
    const now = (): number | undefined => harness.model.snapshot(id)?.state.pid;
    await until("the new process is seen", () => now() !== before && harness.statusOf(id) === "running");
  });

  test("leaves no container of the same name that another program made and removed", async () => {
    await using harness = await Harness.with("running");
    const { id } = harness;
    await harness.sync.remove(id, { force: true }, new AbortController().signal);
    await turns(10);
    delayInspects(harness);
    const other = harness.sandbox("a", { running: false });
    await turns(8);
    harness.engine.containers.remove(other, { force: true });
    await turns(100);
    assert.equal(harness.model.has(other), false);
  });
});
