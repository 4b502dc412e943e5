import assert from "node:assert/strict";
import { test } from "node:test";
import { Lifetime } from "../../../src/lib/lifetime.js";
import { silentLogger } from "../../../src/lib/log.js";
import { describeWaits } from "../../../src/lib/waits.js";
import { ShimError } from "../../../src/lib/errors.js";
import { connectAhead } from "../../../src/shim/app/open-engine.js";
import type { Engine } from "../../../src/shim/ports/engine.js";

type Facts = Awaited<ReturnType<Engine["connect"]>>;

/** Connects that are answered by hand, in order. */
function engineByHand() {
  const asked: { signal: AbortSignal; succeed: (facts: Facts) => void; fail: (error: ShimError) => void }[] =
    [];
  const connect: Engine["connect"] = (signal) =>
    new Promise((succeed, fail) => {
      signal.addEventListener("abort", () => fail(ShimError.from(signal.reason)));
      asked.push({ signal, succeed, fail });
    });
  return { asked, connect };
}

const newLifetime = (): Lifetime => new Lifetime(silentLogger());
const factsOf = (engineVersion: string): Facts => ({ engineVersion }) as Facts;
const { signal } = new AbortController();

test("the engine is asked what it is before anyone waits, and its first answer is the first caller's alone", async () => {
  const { asked, connect } = engineByHand();
  const engine = connectAhead({ connect }, newLifetime());
  assert.equal(asked.length, 1);
  const first = engine.connect(signal);
  const second = engine.connect(signal);
  assert.equal(asked.length, 2);
  asked[1]?.succeed(factsOf("second"));
  asked[0]?.succeed(factsOf("first"));
  assert.deepEqual([await first, await second], [factsOf("first"), factsOf("second")]);
});

test("a first connect that has failed before anyone waited fails for the first caller, and is tried again", async () => {
  const { asked, connect } = engineByHand();
  const engine = connectAhead({ connect }, newLifetime());
  asked[0]?.fail(new ShimError("unavailable", "no engine"));
  await assert.rejects(engine.connect(signal), /no engine/);
  const again = engine.connect(signal);
  asked[1]?.succeed(factsOf("later"));
  assert.deepEqual(await again, factsOf("later"));
});

test("a caller that gives up ends the connect that was begun for it", async () => {
  const { asked, connect } = engineByHand();
  const engine = connectAhead({ connect }, newLifetime());
  const caller = new AbortController();
  const waiting = engine.connect(caller.signal);
  caller.abort(new ShimError("timeout", "too late"));
  await assert.rejects(waiting, /too late/);
  assert.equal(asked[0]?.signal.aborted, true);
});

test("a start that fails ends the connect that was begun for it", async () => {
  const { asked, connect } = engineByHand();
  const lifetime = newLifetime();
  connectAhead({ connect }, lifetime);
  await lifetime.close();
  assert.equal(asked[0]?.signal.aborted, true);
});

test("who waits for the first connect sees what that waits for", async () => {
  const { asked, connect } = engineByHand();
  const engine = connectAhead({ connect }, newLifetime());
  const waiting = engine.connect(signal);
  assert.match(String(describeWaits(signal)), /first connect/);
  asked[0]?.succeed(factsOf("later"));
  await waiting;
});
