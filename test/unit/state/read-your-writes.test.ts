import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { isKind } from "../../../src/lib/errors.js";
import { typeLabel } from "../../../src/domain/labels.js";
import type { FakeEngine } from "../../fakes/fake-engine.js";
import { runRequest } from "../../fakes/requests.js";
import { TestShim } from "../../fakes/services.js";
import { turns, until } from "../../fakes/turns.js";

/** What a caller does, and what others do meanwhile. The number chooses a container or sandbox. */
const steps = fc.array(
  fc.tuple(
    fc.constantFrom(
      ...["run", "create", "start", "stop", "remove", "stopPod", "removePod", "exits", "isRemoved", "wait"],
    ),
    fc.nat(5),
  ),
  { minLength: 5, maxLength: 25 },
);
/** Turns after which each event is delivered: none loses it, two double it. */
const deliveries = fc.infiniteStream(fc.array(fc.nat(8), { maxLength: 2 }));

/** The state of one id as the model and as the engine have it. */
function both(shim: TestShim, id: string): readonly [string | undefined, string | undefined] {
  const known = shim.services.state.model.snapshot(id)?.state;
  const real = shim.engine.containers.inspect(id)?.state;
  const text = (state: typeof known): string | undefined =>
    state && `${state.status} ${state.pid} ${state.exitCode}`;
  return [text(known), text(real)];
}

function assertOwnWritesAreSeen(shim: TestShim, ids: readonly string[]): void {
  for (const id of ids) {
    const [known, real] = both(shim, id);
    assert.equal(known, real, `container ${id.slice(0, 8)}`);
  }
}

class Caller {
  readonly sandboxes: string[] = [];
  readonly containers: string[] = [];
  #names = 0;

  constructor(private readonly shim: TestShim) {}

  /** Does one step; answers the ids that this very step has changed. */
  async take(action: string, choice: number): Promise<readonly string[]> {
    const { shim, sandboxes, containers } = this;
    const sandbox = sandboxes[choice % Math.max(1, sandboxes.length)];
    const container = containers[choice % Math.max(1, containers.length)];
    this.#names += 1;
    if (action === "run") {
      const metadata = { name: `pod-${this.#names}`, namespace: "default", uid: "u", attempt: 0 };
      sandboxes.push(await shim.runSandbox(runRequest({ metadata })));
      return sandboxes.slice(-1);
    }
    if (action === "create" && sandbox !== undefined) {
      const metadata = { name: `c-${this.#names}`, attempt: 0 };
      containers.push(await shim.createContainer(sandbox, { metadata }));
      return containers.slice(-1);
    }
    if (action === "stopPod" && sandbox !== undefined) {
      await shim.stopSandbox(sandbox);
      return [sandbox];
    }
    if (action === "removePod" && sandbox !== undefined) {
      await shim.removeSandbox(sandbox);
      return [sandbox];
    }
    if (container === undefined) return [];
    if (action === "start") await shim.startContainer(container);
    else if (action === "stop") await shim.stopContainer(container);
    else if (action === "remove") await shim.removeContainer(container);
    else return [];
    return [container];
  }
}

/** The world changes something behind the shim's back. */
function meddle(engine: FakeEngine, action: string, choice: number): void {
  const id = engine.containers.ids[choice % Math.max(1, engine.containers.ids.length)];
  if (id === undefined) return;
  if (action === "exits" && engine.containers.get(id).state.running) engine.containers.exit(id, 1);
  if (action === "isRemoved") engine.containers.remove(id, { force: true });
}

test("every call sees its own writes when it returns, and a resync heals the rest, whatever the events do", async () => {
  await fc.assert(
    fc.asyncProperty(steps, deliveries, async (taken, delays) => {
      await using shim = await TestShim.start();
      const each: Iterator<number[], undefined> = delays;
      shim.engine.events$.policy = () => each.next().value ?? [];
      const caller = new Caller(shim);
      for (const [action, choice] of taken) {
        if (action === "wait") await turns(choice);
        meddle(shim.engine, action, choice);
        try {
          assertOwnWritesAreSeen(shim, await caller.take(action, choice));
        } catch (error) {
          // Starting what has ended, creating in a stopped pod: refusals are no writes.
          if (!isKind(error, "precondition", "notFound")) throw error;
        }
      }
      // Without the scratch containers that come and go in the background: they have no type.
      const { containers } = shim.engine;
      const ids = containers.ids.filter((id) => (containers.get(id).body.Labels[typeLabel] ?? "") !== "");
      // After a reconnect the model is the engine's, to the last entry.
      shim.engine.events$.policy = () => [0];
      await turns(12);
      shim.engine.events$.breakAll(new Error("the stream breaks"));
      await until("the link recovers", () => shim.services.state.link.state.phase === "recovering");
      await until("the link is live", () => shim.services.state.link.state.phase === "live");
      assert.deepEqual([...shim.services.state.model.ids()].sort(), [...ids].sort());
      assertOwnWritesAreSeen(shim, ids);
    }),
    { numRuns: process.env["DOCKERSHIM_TEST_LONG"] === "1" ? 600 : 30 },
  );
});
