import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { KeyedMutex } from "../../../../src/lib/sync/keyed-mutex.js";
import { turns } from "../../../fakes/turns.js";

const never = new AbortController().signal;

/** Work that ends when told to. */
function gate(): { readonly opened: Promise<void>; open: () => void } {
  let open!: () => void;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}

describe("KeyedMutex", () => {
  test("run() lets one holder of a key in at a time, in order of arrival", async () => {
    const lock = new KeyedMutex();
    const seen: string[] = [];
    const work = (name: string) => async () => {
      seen.push(`${name} begins`);
      await turns(2);
      seen.push(`${name} ends`);
    };
    await Promise.all([
      lock.run("a", never, work("1")),
      lock.run("a", never, work("2")),
      lock.run("a", never, work("3")),
    ]);
    assert.deepEqual(seen, ["1 begins", "1 ends", "2 begins", "2 ends", "3 begins", "3 ends"]);
  });

  test("run() lets holders of different keys in together", async () => {
    const lock = new KeyedMutex();
    const { opened, open } = gate();
    const first = lock.run("a", never, () => opened);
    assert.equal(await lock.run("b", never, () => Promise.resolve("in")), "in");
    open();
    await first;
  });

  test("run() frees the lock when the work throws", async () => {
    const lock = new KeyedMutex();
    await assert.rejects(
      lock.run("a", never, () => Promise.reject(new Error("work"))),
      /work/,
    );
    assert.equal(await lock.run("a", never, () => Promise.resolve("next")), "next");
  });

  test("an abort while waiting never runs the work and keeps the order of those behind", async () => {
    const lock = new KeyedMutex();
    const { opened, open } = gate();
    const leaver = new AbortController();
    const seen: string[] = [];
    const first = lock.run("a", never, async () => {
      await opened;
      seen.push("first");
    });
    const second = lock.run("a", leaver.signal, () => Promise.resolve(seen.push("second")));
    const third = lock.run("a", never, () => Promise.resolve(seen.push("third")));
    leaver.abort(new Error("left"));
    await assert.rejects(second, /left/);
    await turns(3);
    assert.deepEqual(seen, [], "the lock is still held by the first");
    open();
    await Promise.all([first, third]);
    assert.deepEqual(seen, ["first", "third"]);
  });

  test("a signal that has aborted before never runs the work, also in a free lock", async () => {
    const lock = new KeyedMutex();
    let ran = false;
    const work = (): Promise<void> => {
      ran = true;
      return Promise.resolve();
    };
    await assert.rejects(lock.run("a", AbortSignal.abort(new Error("gone")), work), /gone/);
    assert.equal(ran, false);
  });

  test("a free lock takes no memory", async () => {
    const lock = new KeyedMutex();
    await Promise.all(["a", "b", "a"].map((key) => lock.run(key, never, () => turns(1))));
    await turns(1);
    assert.equal(lock.size, 0);
  });
});
