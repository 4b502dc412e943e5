import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type PodState,
  type TurnInput,
  afterStarts,
  changedState,
  newPodState,
  nextTurn,
  originOf,
} from "../../../../src/play/pod-rules/next-turn.js";
import type { ObservedPod } from "../../../../src/play/pod-rules/observed-pod.js";
import { noProbeResults } from "../../../../src/play/pod-rules/probe-results.js";
import { observedPod, podWith } from "../fake-cri.js";

const spec = "  restartPolicy: Never\n  activeDeadlineSeconds: 5\n  containers: [{name: a, image: x}]";
const manifest = await podWith(spec);
const made = observedPod(manifest, "a=running").sandboxes.map((sandbox) => ({
  ...sandbox,
  createdAt: 7_000_000n,
}));
const evicted = { phase: "Failed", reason: "Evicted", message: "too large" } as const;
const waiting = new Map([["a", { reason: "ErrImagePull" }]]);

const turns: readonly (readonly [string, string, PodState, Partial<TurnInput>, string])[] = [
  ["a pod that runs", "a=running", newPodState, { now: 5006 }, "act Running 7"],
  ["a pod beyond its deadline", "a=running", newPodState, { now: 5007 }, "end Failed DeadlineExceeded up 7"],
  [
    "a pod whose start was seen before",
    "a=running",
    { ...newPodState, startTime: 8 },
    { now: 5007 },
    "act Running 8",
  ],
  ["a pod that is evicted", "a=running", newPodState, { ended: evicted }, "end Failed Evicted up 7"],
  ["a pod that was evicted", "a=0", { ...newPodState, ended: evicted }, {}, "end Failed Evicted up 7"],
  ["a pod that has succeeded", "a=0", newPodState, {}, "end Succeeded up 7"],
];
for (const [what, there, state, input, expected] of turns) {
  test(`nextTurn() of ${what}: ${expected}`, () => {
    const observed = observedPod(manifest, there, { sandboxes: made });
    const defaults = { observed, probes: noProbeResults, ended: undefined, now: 10 };
    const { state: after, turn } = nextTurn(manifest, state, { ...defaults, ...input });
    assert.ok(turn.kind !== "recreate");
    const { phase, reason } = turn.status;
    const words = [turn.kind, phase, reason, turn.kind === "end" && turn.isUp ? "up" : "", after.startTime];
    assert.equal(words.filter((word) => word !== undefined && word !== "").join(" "), expected);
    assert.equal(after.ended?.phase, turn.kind === "end" ? phase : undefined);
  });
}

test("nextTurn() makes a pod again of which a container has ended and has changed", async () => {
  const changed = await podWith(spec.replace("image: x", "image: y"));
  const observed = observedPod(manifest, "a=0");
  const { turn } = nextTurn(changed, newPodState, {
    observed,
    probes: noProbeResults,
    ended: undefined,
    now: 10,
  });
  assert.equal(turn.kind, "recreate");
});

test("originOf() tells pods of other programs, of another manifest and of another uid", () => {
  const origin = (changes: Partial<ObservedPod["sandboxes"][number]>): string =>
    originOf(manifest, {
      ...observedPod(manifest, ""),
      sandboxes: made.map((one) => ({ ...one, ...changes })),
    });
  assert.deepEqual(
    [origin({}), origin({ playHash: undefined }), origin({ playHash: "other" }), origin({ uid: "other" })],
    ["current", "foreign", "outdated", "outdated"],
  );
});

test("changedState() keeps the end of the same pod alone, and no reasons of waits", async () => {
  const state = { startTime: 3, ended: evicted, waiting };
  const later = await podWith(spec.replace("Seconds: 5", "Seconds: 6"));
  const other = await podWith(`  hostname: other\n${spec}`);
  assert.deepEqual(changedState(state, manifest, later), {
    startTime: 3,
    ended: evicted,
    waiting: new Map(),
  });
  assert.deepEqual(changedState(state, manifest, other), { startTime: 3, waiting: new Map() });
});

test("afterStarts() knows why the last start of each container has failed", () => {
  const starts = new Map([
    ["a", undefined],
    ["b", { reason: "ErrImagePull" }],
  ]);
  const { waiting: after } = afterStarts({ startTime: 3, waiting }, starts);
  assert.deepEqual([...after], [["b", { reason: "ErrImagePull" }]]);
});
