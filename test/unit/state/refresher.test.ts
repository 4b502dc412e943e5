import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { orAbort, withDeadline } from "../../../src/lib/abort.js";
import { ShimError } from "../../../src/lib/errors.js";
import { describeWaits } from "../../../src/lib/waits.js";
import { Refresher } from "../../../src/shim/state/refresher.js";
import { turns } from "../../fakes/turns.js";

/** A refresher that counts its refreshes; each lasts until it is released or its signal is aborted. */
function held() {
  const count = { begun: 0, aborted: 0 };
  const releases: (() => void)[] = [];
  const refresher = new Refresher((_id, signal) => {
    count.begun += 1;
    return new Promise((resolve, reject) => {
      releases.push(resolve);
      signal.addEventListener("abort", () => {
        count.aborted += 1;
        reject(signal.reason as Error);
      });
    });
  });
  return { refresher, count, release: () => releases.shift()?.() };
}

async function leave(waiting: Promise<void>, caller: AbortController): Promise<void> {
  caller.abort();
  await assert.rejects(waiting);
}

describe("Refresher", () => {
  test("refreshes of one id never overlap, and each trigger has one that begins after it", async () => {
    const turnCounts = (most: number) => fc.array(fc.nat(most), { maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(turnCounts(3), turnCounts(4), async (pauses, durations) => {
        let running = 0;
        let begun = 0;
        const refresher = new Refresher(async () => {
          running += 1;
          assert.equal(running, 1, "two refreshes overlap");
          await turns(durations[begun++ % Math.max(1, durations.length)] ?? 1);
          running -= 1;
        });
        const refreshes: Promise<void>[] = [];
        for (const pause of pauses) {
          await turns(pause);
          const before = begun;
          const refreshed = refresher.refresh("a").then(() => assert.ok(begun > before, "it began before"));
          refreshes.push(refreshed);
        }
        await Promise.all(refreshes);
        assert.ok(begun <= pauses.length, "more refreshes than triggers");
      }),
      { numRuns: 50 },
    );
  });

  test("many triggers during a refresh make exactly one more", async () => {
    const { refresher, count, release } = held();
    const all = Array.from({ length: 6 }, () => refresher.refresh("a"));
    release();
    await all[0];
    await turns(1);
    release();
    await Promise.all(all);
    assert.equal(count.begun, 2);
  });

  test("a failure reaches the caller of that refresh only", async () => {
    let begun = 0;
    const refresher = new Refresher(async () => {
      const mine = (begun += 1);
      await turns(1);
      if (mine === 1) throw new Error("first fails");
    });
    const first = refresher.refresh("a");
    const second = refresher.refresh("a");
    await assert.rejects(first, /first fails/);
    await second;
  });

  test("what a refresh waits for is what its callers wait for", async () => {
    const refresher = new Refresher((_id, signal) =>
      withDeadline(signal, 1000, "inspect", (own) => orAbort(new Promise(() => undefined), own)),
    );
    const caller = new AbortController();
    const waiting = refresher.refresh("a", caller.signal);
    assert.match(describeWaits(caller.signal).join(), /^inspect \(\d+ ms\)$/);
    await leave(waiting, caller);
  });

  test("a refresh ends when the last caller has left, not before", async () => {
    const { refresher, count } = held();
    const [first, second] = [new AbortController(), new AbortController()];
    const began = refresher.refresh("a", first.signal);
    await leave(refresher.refresh("a", second.signal), second);
    assert.equal(count.aborted, 0, "the other one still waits");
    await leave(began, first);
    assert.equal(count.aborted, 1);
  });

  test("a refresh does not end for callers that leave while a caller without a signal waits", async () => {
    const { refresher, count } = held();
    void refresher.refresh("a").catch(() => undefined);
    await turns(1);
    const caller = new AbortController();
    await leave(refresher.refresh("a", caller.signal), caller);
    assert.equal(count.aborted, 0);
    refresher.abort(new ShimError("cancelled", "the shim is stopping"));
    assert.equal(count.aborted, 1);
  });

  for (const [what, comes] of [
    ["never begins, and the next trigger begins one", false],
    ["is had by a caller that comes to it", true],
  ] as const) {
    test(`a queued refresh whose callers have left ${what}`, async () => {
      const { refresher, count, release } = held();
      const first = refresher.refresh("a");
      const caller = new AbortController();
      await leave(refresher.refresh("a", caller.signal), caller);
      const stays = comes ? refresher.refresh("a", new AbortController().signal) : undefined;
      release();
      await first;
      await turns(2);
      assert.equal(count.begun, comes ? 2 : 1);
      const last = stays ?? refresher.refresh("a");
      release();
      await last;
      assert.equal(count.begun, 2);
    });
  }
});
