import assert from "node:assert/strict";
import { test } from "node:test";
import { turns } from "../../fakes/turns.js";
import { TurnQueue } from "../../../src/shim/logs/turn-queue.js";

test("a turn that throws is reported, and those behind it have theirs", async () => {
  const errors: unknown[] = [];
  const queue = new TurnQueue((error) => errors.push(error), 1);
  const failure = new Error("broken");
  queue.add(() => Promise.reject(failure));
  await new Promise<void>((resolve) => {
    queue.add(() => {
      resolve();
      return Promise.resolve(false);
    });
  });
  assert.deepEqual(errors, [failure]);
});

test("four turns at a time: one with more to do goes behind those that wait, and one that hangs holds none but its own", async () => {
  const queue = new TurnQueue((error) => assert.ifError(error));
  const order: string[] = [];
  const hang = new Promise<boolean>(() => undefined);
  for (const name of ["a", "b", "c"]) {
    queue.add(() => {
      order.push(name);
      return hang;
    });
  }
  const repeat = (name: string, times: number): void => {
    let left = times;
    queue.add(() => {
      order.push(name);
      return Promise.resolve((left -= 1) > 0);
    });
  };
  repeat("long", 3);
  repeat("short", 1);
  repeat("other", 2);
  await turns(5);
  assert.deepEqual(order, ["a", "b", "c", "long", "short", "other", "long", "other", "long"]);
  queue.add(() => {
    order.push("d");
    return hang;
  });
  repeat("fifth", 1);
  await turns(5);
  assert.equal(order.at(-1), "d");
});
