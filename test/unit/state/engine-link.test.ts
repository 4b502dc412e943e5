import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isKind, ShimError } from "../../../src/lib/errors.js";
import { EngineLink } from "../../../src/shim/state/engine-link.js";
import { nodeFacts } from "../../fakes/node-facts.js";
import { turns } from "../../fakes/turns.js";

const never = new AbortController().signal;
const facts = nodeFacts();
const lost = { phase: "lost", reason: new ShimError("unavailable", "no such socket") } as const;

describe("EngineLink.live()", () => {
  test("answers at once when the link is live", async () => {
    const link = new EngineLink();
    link.set({ phase: "live", facts });
    assert.equal(await link.live(never), facts);
  });

  test("waits while the link recovers, over several changes", async () => {
    const link = new EngineLink();
    let answered = false;
    const waiting = link.live(never).then((answer) => {
      answered = true;
      return answer;
    });
    await turns(2);
    link.set({ phase: "recovering", facts });
    await turns(2);
    assert.equal(answered, false);
    link.set({ phase: "live", facts });
    assert.equal(await waiting, facts);
  });

  test("fails unavailable with the reason when the engine is lost", async () => {
    const link = new EngineLink();
    link.set(lost);
    await assert.rejects(
      link.live(never),
      (error) => isKind(error, "unavailable") && error.message === "no such socket",
    );
  });

  test("fails when the engine is lost while it waits, also for another kind of reason", async () => {
    const link = new EngineLink();
    const waiting = link.live(never);
    await turns(1);
    link.set({ phase: "lost", reason: new ShimError("precondition", "engine too old") });
    await assert.rejects(
      waiting,
      (error) => isKind(error, "unavailable") && error.message === "engine too old",
    );
  });

  test("ends with the caller's reason when the caller leaves", async () => {
    const link = new EngineLink();
    const caller = new AbortController();
    const waiting = link.live(caller.signal);
    await turns(1);
    caller.abort(new ShimError("cancelled", "left"));
    await assert.rejects(waiting, (error) => isKind(error, "cancelled") && error.message === "left");
  });

  test("gives up when recovering takes too long", async () => {
    const link = new EngineLink(1);
    const keepAlive = setInterval(() => undefined, 1000);
    try {
      await assert.rejects(
        link.live(never),
        (error) => isKind(error, "unavailable") && error.message.includes("still being read"),
      );
    } finally {
      clearInterval(keepAlive);
    }
  });
});

test("EngineLink.facts are there unless the engine is lost", () => {
  const link = new EngineLink();
  assert.equal(link.facts, undefined);
  link.set({ phase: "recovering", facts });
  assert.equal(link.facts, facts);
  link.set(lost);
  assert.equal(link.facts, undefined);
});
