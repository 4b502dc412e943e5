import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import { Backoff } from "../../../../src/lib/sync/backoff.js";
import { CoalescedWork } from "../../../../src/lib/sync/coalesced-work.js";
import { KeyedMutex } from "../../../../src/lib/sync/keyed-mutex.js";
import { ReadWriteLock } from "../../../../src/lib/sync/read-write-lock.js";
import { Semaphore } from "../../../../src/lib/sync/semaphore.js";
import { SingleFlight } from "../../../../src/lib/sync/single-flight.js";
import { turns } from "../../../fakes/turns.js";
import { pluck } from "../../../support/pluck.js";

const never = new AbortController().signal;
const left = new ShimError("cancelled", "left");

/** Work that lasts until it is told to end. */
class Work {
  hasBegun = false;
  end!: () => void;
  readonly #ended = new Promise<void>((resolve) => (this.end = resolve));
  readonly run = async (): Promise<void> => {
    this.hasBegun = true;
    await this.#ended;
  };
}

type Run = <T>(signal: AbortSignal, work: () => Promise<T>) => Promise<T>;

const locks: Readonly<Record<string, () => { readonly run: Run }>> = {
  "a key of a KeyedMutex": () => {
    const mutex = new KeyedMutex();
    return { run: (signal, work) => mutex.run("key", signal, work) };
  },
  "a Semaphore of one": () => new Semaphore(1),
  "a ReadWriteLock among writers": () => {
    const lock = new ReadWriteLock();
    return { run: (signal, work) => lock.write(signal, work) };
  },
};
for (const [name, make] of Object.entries(locks)) {
  describe(name, () => {
    test("lets one holder in at a time, in order of arrival, and never one that has left the queue", async () => {
      const lock = make();
      const works = [new Work(), new Work(), new Work()];
      const leaver = new AbortController();
      const [first, ...others] = works.map(({ run }) => lock.run(never, run));
      const leaving = lock.run(leaver.signal, () => assert.fail("let in"));
      leaver.abort(left);
      await assert.rejects(leaving, /left/);
      for (const [index, { end }] of works.entries()) {
        await turns(3);
        const expected = Array.from(works, (_, at) => at <= index);
        assert.deepEqual(pluck(works, "hasBegun"), expected);
        end();
      }
      await Promise.all([first, ...others]);
    });

    test("is free after a failure, and not for a caller that has left before", async () => {
      const lock = make();
      const failing = lock.run(never, () => Promise.reject(new Error("failed")));
      await assert.rejects(failing, /failed/);
      const late = lock.run(AbortSignal.abort(left), () => assert.fail("let in"));
      await assert.rejects(late, /left/);
      assert.equal(await lock.run(never, () => Promise.resolve("in")), "in");
    });
  });
}

test("KeyedMutex lets holders of different keys in together, and a free lock takes no memory", async () => {
  const lock = new KeyedMutex();
  const work = new Work();
  const first = lock.run("a", never, work.run);
  assert.equal(await lock.run("b", never, () => Promise.resolve("in")), "in");
  work.end();
  await first;
  await turns(1);
  assert.equal(lock.size, 0);
});

test("Semaphore lets in as many as there are permits", async () => {
  const semaphore = new Semaphore(2);
  const works = [new Work(), new Work(), new Work(), new Work()];
  const runs = works.map(({ run }) => semaphore.run(never, run));
  await turns(1);
  works[1]?.end();
  await runs[1];
  await turns(1);
  assert.deepEqual(pluck(works, "hasBegun"), [true, true, true, false]);
  for (const { end } of works) end();
  await Promise.all(runs);
});

test("ReadWriteLock lets readers overlap, and a writer wait until no reader is left", async () => {
  const lock = new ReadWriteLock();
  const [first, second, alone, late] = [new Work(), new Work(), new Work(), new Work()];
  const all = [lock.read(never, first.run), lock.write(never, alone.run), lock.read(never, second.run)];
  await turns(2);
  assert.deepEqual([first.hasBegun, second.hasBegun, alone.hasBegun], [true, true, false]);
  first.end();
  await turns(2);
  assert.equal(alone.hasBegun, false, "the second still runs");
  second.end();
  await turns(2);
  assert.equal(alone.hasBegun, true);
  all.push(lock.read(never, late.run));
  await turns(2);
  assert.equal(late.hasBegun, false, "no reader runs beside the writer");
  alone.end();
  late.end();
  await Promise.all(all);
});

describe("SingleFlight.run()", () => {
  test("shares the work and its result or failure among concurrent callers of one key", async () => {
    const flights = new SingleFlight<string>();
    let runs = 0;
    const work = async (): Promise<string> => {
      const number = (runs += 1);
      await turns(1);
      return `run ${number}`;
    };
    const run = (key: string): Promise<string> => flights.run(key, never, work);
    assert.deepEqual(await Promise.all([run("a"), run("a"), run("b")]), ["run 1", "run 1", "run 2"]);
    assert.equal(await run("a"), "run 3", "a later call begins anew");
    const fail = (): Promise<string> => turns(1).then(() => Promise.reject(new Error("broken")));
    const failing = [flights.run("a", never, fail), flights.run("a", never, fail)];
    for (const one of await Promise.allSettled(failing)) assert.equal(one.status, "rejected");
    assert.equal(await run("a"), "run 4");
  });

  test("cancels the work when the last caller has left, and not before; the next caller begins anew", async () => {
    const flights = new SingleFlight<string>();
    const callers = [new AbortController(), new AbortController()] as const;
    const signals: AbortSignal[] = [];
    const work = (own: AbortSignal): Promise<string> => {
      signals.push(own);
      return new Promise(() => undefined);
    };
    const waiting = callers.map((caller) => flights.run("k", caller.signal, work));
    for (const [index, caller] of callers.entries()) {
      assert.equal(signals[0]?.aborted, false);
      caller.abort(left);
      await assert.rejects(waiting[index] ?? Promise.resolve(), /left/);
    }
    assert.deepEqual([signals.length, signals[0]?.aborted], [1, true]);
    assert.equal(await flights.run("k", never, () => Promise.resolve("anew")), "anew");
  });
});

test("CoalescedWork runs one at a time, and what was asked for meanwhile once, with the newest value", async () => {
  const seen: string[] = [];
  const ends: (() => void)[] = [];
  const work = new CoalescedWork<number>(async (value) => {
    seen.push(`begin ${value}`);
    await new Promise<void>((end) => ends.push(end));
    seen.push(`end ${value}`);
  });
  await work.settled();
  for (const value of [1, 2, 3, 4]) work.request(value);
  await turns(1);
  assert.deepEqual(seen, ["begin 1"]);
  const settled = work.settled();
  for (const value of [1, 4]) {
    ends.shift()?.();
    await turns(1);
    assert.ok(seen.includes(`end ${value}`));
  }
  await settled;
  work.request(5);
  await turns(1);
  assert.deepEqual(seen, ["begin 1", "end 1", "begin 4", "end 4", "begin 5"]);
  ends.shift()?.();
  await work.settled();
});

test("Backoff doubles the pause up to the longest, and begins again after reset()", () => {
  const backoff = new Backoff({ first: 2, longest: 5 });
  assert.deepEqual([backoff.next(), backoff.next(), backoff.next(), backoff.next()], [2, 4, 5, 5]);
  backoff.reset();
  assert.equal(backoff.next(), 2);
});
