import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Semaphore } from "../../../../src/lib/sync/semaphore.js";

/** Work that ends when told. */
function held(): {
  readonly work: () => Promise<void>;
  readonly end: () => void;
  readonly begun: () => boolean;
} {
  let end!: () => void;
  let begun = false;
  const promise = new Promise<void>((resolve) => (end = resolve));
  return {
    work: async () => {
      begun = true;
      await promise;
    },
    end: () => {
      end();
    },
    begun: () => begun,
  };
}

describe("Semaphore", () => {
  const never = new AbortController().signal;

  test("lets in as many as there are permits, the others in order of arrival", async () => {
    const semaphore = new Semaphore(2);
    const jobs = [held(), held(), held(), held()];
    const runs = jobs.map(async ({ work }) => semaphore.run(never, work));
    await new Promise(setImmediate);
    assert.deepEqual(
      jobs.map(({ begun }) => begun()),
      [true, true, false, false],
    );
    jobs[1]?.end();
    await runs[1];
    await new Promise(setImmediate);
    assert.deepEqual(
      jobs.map(({ begun }) => begun()),
      [true, true, true, false],
    );
    for (const { end } of jobs) end();
    await Promise.all(runs);
    assert.ok(jobs.every(({ begun }) => begun()));
  });

  test("a caller that leaves the queue takes no permit", async () => {
    const semaphore = new Semaphore(1);
    const first = held();
    const last = held();
    const running = semaphore.run(never, first.work);
    const caller = new AbortController();
    const leaving = semaphore.run(caller.signal, () => assert.fail("let in"));
    const waiting = semaphore.run(never, last.work);
    caller.abort();
    await assert.rejects(leaving, { kind: "cancelled" });
    first.end();
    last.end();
    await Promise.all([running, waiting]);
    assert.ok(last.begun());
  });

  test("a failure releases its permit", async () => {
    const semaphore = new Semaphore(1);
    await assert.rejects(
      semaphore.run(never, () => Promise.reject(new Error("failed"))),
      /failed/,
    );
    assert.equal(await semaphore.run(never, () => Promise.resolve("in")), "in");
  });

  test("a caller that has left already is not let in", async () => {
    await assert.rejects(
      new Semaphore(1).run(AbortSignal.abort(), () => assert.fail("let in")),
      { kind: "cancelled" },
    );
  });
});
