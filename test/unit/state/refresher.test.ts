import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
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
});
