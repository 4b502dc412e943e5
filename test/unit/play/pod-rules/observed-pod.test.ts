import assert from "node:assert/strict";
import { test } from "node:test";
import { byAge } from "../../../../src/play/pod-rules/observed-pod.js";

test("byAge() puts the highest attempt first, also when the clock was set back before it", () => {
  const attempts = [
    { attempt: 1, createdAt: 9n },
    { attempt: 2, createdAt: 3n },
    { attempt: 0, createdAt: 5n },
    { attempt: 2, createdAt: 4n },
  ].sort(byAge);
  assert.deepEqual(
    attempts.map(({ attempt, createdAt }) => [attempt, createdAt]),
    [
      [2, 4n],
      [2, 3n],
      [1, 9n],
      [0, 5n],
    ],
  );
});
