import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../src/lib/errors.js";
import { EngineLink } from "../../../src/shim/state/engine-link.js";
import { nodeFacts } from "../../fakes/node-facts.js";
import { rejectsWith } from "../../support/refusals.js";
import { turns } from "../../fakes/turns.js";

const never = new AbortController().signal;
const facts = nodeFacts();

describe("EngineLink.live()", () => {
  test("waits while the link recovers, over several changes", async () => {
    const link = new EngineLink();
    let answered = false;
    const waiting = link.live(never).finally(() => (answered = true));
    link.set({ phase: "recovering", facts });
    await turns(2);
    assert.equal(answered, false);
    link.set({ phase: "live", facts });
    assert.equal(await waiting, facts);
    assert.equal(link.facts, facts);
  });

  test("fails unavailable when the engine is lost while it waits, whatever the kind of the reason", async () => {
    const link = new EngineLink();
    const waiting = rejectsWith(link.live(never), "unavailable", /^engine too old$/);
    link.set({ phase: "lost", reason: new ShimError("precondition", "engine too old") });
    await waiting;
    assert.equal(link.facts, undefined);
  });

  test("knows since when its phase lasts, and the latest loss, also when it is live again", (context) => {
    context.mock.timers.enable({ apis: ["Date"], now: 1000 });
    const link = new EngineLink();
    assert.deepEqual([link.sinceMs, link.lastLoss], [1000, undefined]);
    const [first, second] = [new ShimError("unavailable", "first"), new ShimError("unavailable", "second")];
    for (const reason of [first, second]) {
      context.mock.timers.tick(1000);
      link.set({ phase: "lost", reason });
    }
    assert.deepEqual([link.sinceMs, link.lastLoss], [2000, { reason: second, atMs: 3000 }]);
    context.mock.timers.tick(1000);
    link.set({ phase: "live", facts });
    assert.deepEqual([link.sinceMs, link.lastLoss?.reason], [4000, second]);
  });

  test("ends with the caller's reason when the caller leaves", async () => {
    const caller = new AbortController();
    const waiting = rejectsWith(new EngineLink().live(caller.signal), "cancelled", /left/);
    await turns(1);
    caller.abort(new ShimError("cancelled", "left"));
    await waiting;
  });

  test("gives up when recovering takes too long", async () => {
    const keepAlive = setInterval(() => undefined, 1000);
    try {
      await rejectsWith(new EngineLink(1).live(never), "unavailable", /still being read/);
    } finally {
      clearInterval(keepAlive);
    }
  });
});
