import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import { ShimError } from "../../../src/lib/errors.js";
import { EngineLiveness } from "../../../src/shim/state/engine-liveness.js";
import { rejectsWith } from "../../support/refusals.js";
import { turns } from "../../fakes/turns.js";

/** An engine whose pings are answered when the test says so, and a clock. */
function bed(t: TestContext) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const clock = { nowMs: 1_000_000, answeredAtMs: -Infinity };
  const pings: { readonly answer: () => void; readonly fail: (error: Error) => void }[] = [];
  const engine = {
    hasAnswered: (recentMs: number) => clock.nowMs - clock.answeredAtMs < recentMs,
    ping: () =>
      new Promise<void>((resolve, reject) => {
        const answer = (): void => {
          clock.answeredAtMs = clock.nowMs;
          resolve();
        };
        pings.push({ answer, fail: reject });
      }),
  };
  const liveness = new EngineLiveness(engine, () => clock.nowMs);
  const pass = async (ms: number): Promise<void> => {
    clock.nowMs += ms;
    t.mock.timers.tick(ms);
    await turns(2);
  };
  /** What a kubelet sees: it waits, for three seconds at most. */
  const check = async (): Promise<void> => {
    const checked = liveness.check(new AbortController().signal);
    checked.catch(() => undefined);
    await turns(2);
    await pass(3_000);
    return checked;
  };
  return { liveness, clock, pings, pass, check };
}

describe("EngineLiveness", () => {
  test("an engine that answers pings after 20 s is there", async (t) => {
    const { pings, pass, check } = bed(t);
    for (let round = 0; round < 30; round += 1) {
      await check();
      await pass(2_000);
      if (round >= 4) pings[round - 4]?.answer();
      await turns(2);
    }
  });

  test("callers share a ping of the last three seconds", async (t) => {
    const { pings, pass, check } = bed(t);
    await Promise.all([check(), check()]);
    assert.equal(pings.length, 1);
    await pass(3_000);
    await check();
    assert.equal(pings.length, 2);
  });

  test("an engine that answers other requests than pings is there", async (t) => {
    const { clock, check, pass } = bed(t);
    for (let round = 0; round < 20; round += 1) {
      await check();
      await pass(5_000);
      if (round % 2 === 0) clock.answeredAtMs = clock.nowMs;
    }
  });

  test("an engine that was asked for nothing for long has its time, too", async (t) => {
    const { check, pass, pings } = bed(t);
    await pass(3_600_000);
    await check();
    pings[0]?.answer();
    await turns(2);
    await pass(3_600_000);
    await check();
  });

  test("an engine that answers nothing for 30 s is not there, until it answers", async (t) => {
    const { check, pass, pings } = bed(t);
    const silent = (): Promise<void> => rejectsWith(check(), "timeout", /ping the engine: no answer for 30s/);
    for (let seconds = 0; seconds < 27; seconds += 3) await check();
    await silent();
    for (const { fail } of pings) fail(new ShimError("timeout", "ping the engine: not finished after 30s"));
    await turns(2);
    await silent();
    await pass(60_000);
    await silent();
    pings.at(-1)?.answer();
    await turns(2);
    await check();
  });

  test("an engine that refuses connections is not there at once", async (t) => {
    const { check, pings, clock, liveness } = bed(t);
    clock.answeredAtMs = clock.nowMs;
    assert.equal(liveness.isProven(), true);
    const refused = rejectsWith(check(), "unavailable", /connection refused/);
    await turns(1);
    pings[0]?.fail(new ShimError("unavailable", "cannot reach the Docker Engine: connection refused"));
    await refused;
  });

  test("a caller that leaves ends its wait alone", async (t) => {
    const { liveness, pings, check } = bed(t);
    const caller = new AbortController();
    const left = liveness.check(caller.signal);
    caller.abort(new ShimError("cancelled", "the caller left"));
    await rejectsWith(left, "cancelled");
    await check();
    assert.equal(pings.length, 1);
  });
});
