import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { ShimError } from "../../../src/lib/errors.js";
import { Refresher } from "../../../src/shim/state/refresher.js";
import { turns } from "../../fakes/turns.js";

describe("Refresher", () => {
  test("refreshes of one id never overlap, whatever the triggers", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(3), { maxLength: 12 }),
        fc.array(fc.nat(4), { maxLength: 12 }),
        async (pauses, durations) => {
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
            refreshes.push(
              refresher.refresh("a").then(() => {
                assert.ok(begun > before, "it resolved without a refresh that began after it was asked for");
              }),
            );
          }
          await Promise.all(refreshes);
          assert.ok(begun <= pauses.length, "more refreshes than triggers");
        },
      ),
      { numRuns: 50 },
    );
  });

  test("many triggers during a refresh make exactly one more", async () => {
    let begun = 0;
    const refresher = new Refresher(async () => {
      begun += 1;
      await turns(2);
    });
    const first = refresher.refresh("a");
    const later = Array.from({ length: 5 }, () => refresher.refresh("a"));
    await Promise.all([first, ...later]);
    assert.equal(begun, 2);
  });

  test("a trigger during the additional refresh makes another one", async () => {
    let begun = 0;
    const refresher = new Refresher(async () => {
      begun += 1;
      await turns(3);
    });
    const first = refresher.refresh("a");
    const second = refresher.refresh("a");
    await first;
    await turns(1);
    assert.equal(begun, 2, "the second runs");
    await Promise.all([second, refresher.refresh("a")]);
    assert.equal(begun, 3);
  });

  test("the refresh that started last ends last, so the newest answer wins", async () => {
    let truth = 0;
    let stored = 0;
    const refresher = new Refresher(async () => {
      const seen = truth;
      // An early answer is slow, a later one quick.
      await turns(10 - seen);
      stored = seen;
    });
    const refreshes: Promise<void>[] = [];
    for (truth = 1; truth < 8; truth += 1) {
      refreshes.push(refresher.refresh("a"));
      await turns(1);
    }
    truth -= 1;
    await Promise.all(refreshes);
    assert.equal(stored, 7);
  });

  test("different ids do not wait for each other", async () => {
    const refresher = new Refresher((id) =>
      id === "hanging" ? new Promise(() => undefined) : Promise.resolve(),
    );
    void refresher.refresh("hanging");
    await refresher.refresh("quick");
  });

  test("a failure reaches the caller of that refresh only", async () => {
    let begun = 0;
    const refresher = new Refresher(async () => {
      begun += 1;
      const mine = begun;
      await turns(1);
      if (mine === 1) throw new Error("first fails");
    });
    const first = refresher.refresh("a");
    const second = refresher.refresh("a");
    await assert.rejects(first, /first fails/);
    await second;
    await refresher.refresh("a");
    assert.equal(begun, 3);
  });

  /** A refresh that ends only with its signal. */
  function hanging(): {
    readonly refresher: Refresher;
    readonly begun: () => number;
    readonly aborted: () => number;
  } {
    const count = { begun: 0, aborted: 0 };
    const refresher = new Refresher((_id, signal) => {
      count.begun += 1;
      return new Promise((_, reject) => {
        signal.addEventListener("abort", () => {
          count.aborted += 1;
          reject(signal.reason as Error);
        });
      });
    });
    return { refresher, begun: () => count.begun, aborted: () => count.aborted };
  }

  test("ends when the last caller has left, not before", async () => {
    const { refresher, aborted } = hanging();
    const [first, second] = [new AbortController(), new AbortController()];
    const began = refresher.refresh("a", first.signal);
    const queued = refresher.refresh("a", second.signal);
    second.abort();
    await assert.rejects(queued);
    assert.equal(aborted(), 0, "the other one still waits");
    first.abort();
    await assert.rejects(began);
    assert.equal(aborted(), 1);
  });

  test("does not end for callers that leave while a caller without a signal waits", async () => {
    const { refresher, aborted } = hanging();
    void refresher.refresh("a").catch(() => undefined);
    await turns(1);
    const caller = new AbortController();
    const waiting = refresher.refresh("a", caller.signal);
    caller.abort();
    await assert.rejects(waiting);
    assert.equal(aborted(), 0);
    refresher.abort(new ShimError("cancelled", "the shim is stopping"));
    assert.equal(aborted(), 1);
  });

  /** The first refresh runs until it is released, and the one caller of the queued one behind it has left. */
  async function leftQueue(): Promise<{
    readonly refresher: Refresher;
    readonly first: Promise<void>;
    readonly release: () => void;
    readonly begun: () => number;
  }> {
    let release!: () => void;
    let begun = 0;
    const refresher = new Refresher(() => {
      begun += 1;
      return begun === 1 ? new Promise((resolve) => (release = resolve)) : Promise.resolve();
    });
    const first = refresher.refresh("a");
    const caller = new AbortController();
    const queued = refresher.refresh("a", caller.signal);
    caller.abort();
    await assert.rejects(queued);
    return { refresher, first, release, begun: () => begun };
  }

  test("a queued refresh whose callers have left never begins, and the next trigger begins one", async () => {
    const { refresher, first, release, begun } = await leftQueue();
    release();
    await first;
    await turns(2);
    assert.equal(begun(), 1);
    await refresher.refresh("a");
    assert.equal(begun(), 2);
  });

  test("a caller that comes to a queued refresh which others left gets it all the same", async () => {
    const { refresher, first, release, begun } = await leftQueue();
    const stays = refresher.refresh("a", new AbortController().signal);
    release();
    await Promise.all([first, stays]);
    assert.equal(begun(), 2);
  });
});
