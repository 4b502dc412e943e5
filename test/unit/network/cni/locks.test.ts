import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { SharedLock } from "../../../../src/shim/lib/sync/rw-lock.js";
import { Slots } from "../../../../src/shim/lib/sync/slots.js";
import { turns } from "../../../fakes/turns.js";

const never = new AbortController().signal;

/** A piece of work that lasts until it is told to end. */
class Work {
  started = false;
  end!: () => void;
  readonly #ended = new Promise<void>((resolve) => {
    this.end = resolve;
  });
  readonly run = async (): Promise<void> => {
    this.started = true;
    await this.#ended;
  };
}

describe("SharedLock", () => {
  test("lets sharers overlap, and one that wants to be alone wait for a quiet moment", async () => {
    const lock = new SharedLock();
    const [first, second, alone, late] = [new Work(), new Work(), new Work(), new Work()];
    const all = [
      lock.shared(never, first.run),
      lock.exclusive(never, alone.run),
      lock.shared(never, second.run),
    ];
    await turns(2);
    assert.deepEqual([first.started, second.started, alone.started], [true, true, false]);
    first.end();
    await turns(2);
    assert.equal(alone.started, false, "the second still runs");
    second.end();
    await turns(2);
    assert.equal(alone.started, true);
    all.push(lock.shared(never, late.run));
    await turns(2);
    assert.equal(late.started, false, "nobody may join the one that is alone");
    alone.end();
    await turns(2);
    assert.equal(late.started, true);
    late.end();
    await Promise.all(all);
  });

  test("a failure frees it, and an abort ends the wait of either kind", async () => {
    const lock = new SharedLock();
    await assert.rejects(
      lock.exclusive(never, () => Promise.reject(new Error("x"))),
      /x/,
    );
    const busy = new Work();
    const running = lock.shared(never, busy.run);
    const stop = new AbortController();
    const waiting = lock.exclusive(stop.signal, () => Promise.resolve());
    stop.abort(new Error("gone"));
    await assert.rejects(waiting, /gone/);
    busy.end();
    await running;
    assert.equal(await lock.exclusive(never, () => Promise.resolve(5)), 5);
  });
});

describe("Slots", () => {
  test("admits no more than fit, in order of arrival", async () => {
    const slots = new Slots(2);
    const work = [new Work(), new Work(), new Work(), new Work()];
    const all = work.map((each) => slots.run(never, each.run));
    const started = (): readonly boolean[] => work.map((each) => each.started);
    await turns(2);
    assert.deepEqual(started(), [true, true, false, false]);
    work[1]!.end();
    await turns(2);
    assert.deepEqual(started(), [true, true, true, false]);
    for (const each of work) each.end();
    await Promise.all(all);
    assert.deepEqual(started(), [true, true, true, true]);
  });

  test("passes on the slot of one that left while waiting or failed", async () => {
    const slots = new Slots(1);
    const busy = new Work();
    const running = slots.run(never, busy.run);
    const stop = new AbortController();
    const leaving = slots.run(stop.signal, () => Promise.resolve("never"));
    const staying = slots.run(never, () => Promise.reject(new Error("fails")));
    const last = slots.run(never, () => Promise.resolve("last"));
    stop.abort(new Error("left"));
    await assert.rejects(leaving, /left/);
    busy.end();
    await running;
    await assert.rejects(staying, /fails/);
    assert.equal(await last, "last");
  });
});
