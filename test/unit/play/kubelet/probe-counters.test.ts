import assert from "node:assert/strict";
import { test } from "node:test";
import { ProbeCounter, probeTimes } from "../../../../src/play/kubelet/probe-counters.js";
import type { ProbeKind } from "../../../../src/play/pod-rules/probe-results.js";

const one = { id: "1", isRunning: true, startedAt: 1000, hasStarted: true };

test("probeTimes() has Kubernetes' defaults, also for 0", () => {
  const defaults = {
    initialDelayMs: 0,
    periodMs: 10_000,
    timeoutMs: 1000,
    successThreshold: 1,
    failureThreshold: 3,
  };
  assert.deepEqual(probeTimes({}), defaults);
  assert.deepEqual(probeTimes({ periodSeconds: 0, timeoutSeconds: 0, failureThreshold: 0 }), defaults);
});

for (const [kind, initial] of [
  ["liveness", "success"],
  ["readiness", "failure"],
  ["startup", "unknown"],
] as const) {
  test(`the result of a ${kind} probe begins as ${initial}, for each container anew`, () => {
    const counter = new ProbeCounter(kind, { failureThreshold: 1 });
    counter.observe(one);
    assert.equal(counter.result("1"), initial);
    counter.count("1", { result: kind === "readiness" ? "success" : "failure" });
    assert.notEqual(counter.result("1"), initial);
    counter.observe({ ...one, id: "2" });
    assert.equal(counter.result("2"), initial);
    assert.equal(counter.result("1"), undefined);
  });
}

test("outcomes count in a row; thresholds decide", () => {
  const counter = new ProbeCounter("readiness", { successThreshold: 2, failureThreshold: 2 });
  counter.observe(one);
  const results = (
    ["success", "failure", "success", "success", "failure", "unknown", "failure"] as const
  ).map((result) => {
    counter.count("1", { result });
    return counter.result("1");
  });
  const no = "failure";
  assert.deepEqual(results, [no, no, no, "success", "success", "success", no]);
});

/** Kind, outcomes with thresholds of 1, whether it probes on. */
const holds: readonly (readonly [ProbeKind, "success" | "failure", boolean])[] = [
  ["liveness", "failure", false],
  ["liveness", "success", true],
  ["startup", "failure", false],
  ["startup", "success", false],
  ["readiness", "failure", true],
];
for (const [kind, result, goesOn] of holds) {
  test(`a ${kind} probe ${goesOn ? "goes on" : "waits for the next container"} after a ${result}`, () => {
    const counter = new ProbeCounter(kind, { failureThreshold: 1 });
    const container = { ...one, hasStarted: kind !== "startup" };
    counter.observe(container);
    counter.count("1", { result });
    assert.equal(counter.firstAt(container) !== undefined, goesOn);
    const next = { ...container, id: "2" };
    counter.observe(next);
    assert.equal(counter.firstAt(next), 1000);
  });
}

test("no probe before the initial delay, of a container that does not run, or before the startup probe", () => {
  const counter = new ProbeCounter("liveness", { initialDelaySeconds: 5 });
  counter.observe(one);
  assert.equal(counter.firstAt(one), 6000);
  assert.equal(counter.firstAt({ ...one, hasStarted: false }), undefined);
  assert.equal(counter.firstAt({ ...one, isRunning: false, hasStarted: false }), undefined);
});
