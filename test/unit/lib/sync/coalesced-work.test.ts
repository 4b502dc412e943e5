import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { CoalescedWork } from "../../../../src/lib/sync/coalesced-work.js";
import { turns } from "../../../fakes/turns.js";

describe("CoalescedWork", () => {
  test("runs one at a time, and what was asked for meanwhile once, with the newest value", async () => {
    const seen: string[] = [];
    const ends: (() => void)[] = [];
    const work = new CoalescedWork<number>(async (value) => {
      seen.push(`begin ${value}`);
      await new Promise<void>((end) => ends.push(end));
      seen.push(`end ${value}`);
    });
    for (const value of [1, 2, 3, 4]) work.request(value);
    await turns(1);
    assert.deepEqual(seen, ["begin 1"]);
    ends[0]?.();
    await turns(1);
    assert.deepEqual(seen, ["begin 1", "end 1", "begin 4"]);
    ends[1]?.();
    await work.settled();
    assert.deepEqual(seen, ["begin 1", "end 1", "begin 4", "end 4"]);
    work.request(5);
    await turns(1);
    assert.equal(seen.at(-1), "begin 5");
    ends[2]?.();
    await work.settled();
  });

  test("settled() waits for what waits, too", async () => {
    const done: number[] = [];
    const work = new CoalescedWork<number>(async (value) => {
      await turns(2);
      done.push(value);
    });
    work.request(1);
    work.request(2);
    await work.settled();
    assert.deepEqual(done, [1, 2]);
  });

  test("settled() has nothing to wait for before the first request", async () => {
    await new CoalescedWork(() => Promise.reject(new Error("never"))).settled();
  });
});
