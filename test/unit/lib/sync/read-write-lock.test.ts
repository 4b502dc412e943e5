import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ReadWriteLock } from "../../../../src/lib/sync/read-write-lock.js";
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

describe("ReadWriteLock", () => {
  test("lets readers overlap, and a writer wait until no reader is left", async () => {
    const lock = new ReadWriteLock();
    const [first, second, alone, late] = [new Work(), new Work(), new Work(), new Work()];
    const all = [lock.read(never, first.run), lock.write(never, alone.run), lock.read(never, second.run)];
    await turns(2);
    assert.deepEqual([first.started, second.started, alone.started], [true, true, false]);
    first.end();
    await turns(2);
    assert.equal(alone.started, false, "the second still runs");
    second.end();
    await turns(2);
    assert.equal(alone.started, true);
    all.push(lock.read(never, late.run));
    await turns(2);
    assert.equal(late.started, false, "no reader runs beside the writer");
    alone.end();
    await turns(2);
    assert.equal(late.started, true);
    late.end();
    await Promise.all(all);
  });

  test("a failure frees it, and an abort ends the wait of either kind", async () => {
    const lock = new ReadWriteLock();
    await assert.rejects(
      lock.write(never, () => Promise.reject(new Error("x"))),
      /x/,
    );
    const busy = new Work();
    const running = lock.read(never, busy.run);
    const stop = new AbortController();
    const waiting = lock.write(stop.signal, () => Promise.resolve());
    stop.abort(new Error("gone"));
    await assert.rejects(waiting, /gone/);
    busy.end();
    await running;
    assert.equal(await lock.write(never, () => Promise.resolve(5)), 5);
  });
});
