import assert from "node:assert/strict";
import { test } from "node:test";
import { Backoff } from "../../../../src/lib/sync/backoff.js";

test("Backoff doubles the pause up to the longest, and begins again after reset()", () => {
  const backoff = new Backoff({ first: 2, longest: 5 });
  assert.deepEqual([backoff.next(), backoff.next(), backoff.next(), backoff.next()], [2, 4, 5, 5]);
  backoff.reset();
  assert.equal(backoff.next(), 2);
});
