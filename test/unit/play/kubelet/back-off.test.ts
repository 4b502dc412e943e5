import assert from "node:assert/strict";
import { test } from "node:test";
import { BackOff, backOffTimes, scaled } from "../../../../src/play/kubelet/back-off.js";

test("BackOff doubles up to 5 minutes, and forgets after twice that time without a failure", () => {
  let now = 0;
  const backOff = new BackOff({ now: () => now }, backOffTimes);
  assert.equal(backOff.until("a", 0), undefined);
  const delays = Array.from({ length: 7 }, () => {
    backOff.next("a", now);
    return backOff.delayMs("a") / 1000;
  });
  assert.deepEqual(delays, [10, 20, 40, 80, 160, 300, 300]);
  assert.equal(backOff.until("a", now), 300_000);
  now = 299_999;
  assert.equal(backOff.until("a", 0), 300_000);
  now = 300_000;
  assert.equal(backOff.until("a", 0), undefined);
  assert.equal(backOff.until("a", 600_001), undefined, "the failure came after more than 10 minutes");
  backOff.next("a", 600_001);
  assert.equal(backOff.delayMs("a"), 10_000);
});

test("BackOff counts a failure in the future from when it is seen, also when the clock is set back again", () => {
  let now = 10_000_000;
  const backOff = new BackOff({ now: () => now }, backOffTimes);
  backOff.next("a", now);
  const failedAt = now;
  now = 6_000_000;
  assert.equal(backOff.until("a", failedAt), 6_010_000);
  now = 6_009_999;
  assert.equal(backOff.until("a", failedAt), 6_010_000);
  now = 2_000_000;
  assert.equal(backOff.until("a", failedAt), 2_010_000);
  now = 2_010_000;
  assert.equal(backOff.until("a", failedAt), undefined);
});

test("BackOff with scaled times, and keys of their own", () => {
  const backOff = new BackOff({ now: () => 0 }, scaled(backOffTimes, 0.1));
  backOff.next("a", 0);
  assert.equal(backOff.untilSinceUpdate("a"), 1000);
  assert.equal(backOff.untilSinceUpdate("b"), undefined);
});
