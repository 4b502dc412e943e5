import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { RecentCalls } from "../../../src/shim/page/recent-calls.js";
import { endedCall } from "../../fakes/page-sample.js";
import { pluck } from "../../support/pluck.js";

const minute = 60_000;

describe("RecentCalls", () => {
  test("keeps the 20 slowest, however many calls were faster", () => {
    const recent = new RecentCalls(() => 0);
    for (let ms = 1; ms <= 100; ms += 1) {
      recent.callEnded(endedCall("a", { rpc: "StartContainer", ms }));
      recent.callEnded(endedCall("a", { rpc: "ExecSync", ms: 1 }));
    }
    const expected = Array.from({ length: 20 }, (_, index) => 100 - index);
    assert.deepEqual(pluck(recent.slowest().calls, "ms"), expected);
  });

  test("forgets the slowest after half an hour to an hour, and says since when they are counted", () => {
    let nowMs = 0;
    const recent = new RecentCalls(() => nowMs);
    const end = (ms: number) => recent.callEnded(endedCall("a", { rpc: "PullImage", ms }));
    const seen = () => {
      const { sinceMs, calls } = recent.slowest();
      return [sinceMs / minute, pluck(calls, "ms")];
    };
    end(900);
    nowMs = 29 * minute;
    end(100);
    assert.deepEqual(seen(), [0, [900, 100]]);
    nowMs = 31 * minute;
    end(500);
    assert.deepEqual(seen(), [0, [900, 500, 100]]);
    nowMs = 62 * minute;
    assert.deepEqual(seen(), [31, [500]]);
    nowMs = 200 * minute;
    assert.deepEqual(seen(), [200, []]);
  });

  test("keeps the 50 latest failures, also fast ones among many successes", () => {
    const recent = new RecentCalls(() => 0);
    for (let index = 0; index < 60; index += 1) {
      recent.callEnded(endedCall("a", { rpc: "PullImage", ms: 0, code: "NOT_FOUND", message: `${index}` }));
      for (let success = 0; success < 30; success += 1)
        recent.callEnded(endedCall("a", { rpc: "ExecSync", ms: 9 }));
    }
    const expected = Array.from({ length: 50 }, (_, index) => String(59 - index));
    assert.deepEqual(pluck(recent.failures(), "message"), expected);
  });

  test("names the longest of the innermost waits", () => {
    const recent = new RecentCalls(() => 0);
    const span = (what: string, startMs: number, endMs: number) =>
      ({ what, kind: "wait", startMs, endMs, children: [] }) as const;
    const outer = { ...span("outer", 0, 100), children: [span("inner", 10, 40)] };
    recent.callEnded(endedCall("", { rpc: "StopContainer", ms: 100, spans: [span("lock", 0, 20), outer] }));
    recent.callEnded(endedCall("", { rpc: "StopContainer", ms: 10, spans: [] }));
    assert.deepEqual(pluck(recent.slowest().calls, "longestWait"), [{ what: "inner", ms: 30 }, undefined]);
  });
});
