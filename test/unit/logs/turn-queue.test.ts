import assert from "node:assert/strict";
import { test } from "node:test";
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
