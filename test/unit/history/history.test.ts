import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { History } from "../../../src/history/history.js";
import type { HistoryRecord } from "../../../src/history/history-record.js";
import type { Span } from "../../../src/lib/waits.js";
import type { EndedCall } from "../../../src/shim/ports/ended-calls.js";
import { pluck } from "../../support/pluck.js";

const containerId = "c".repeat(64);

function ended(rpc: string, more: Partial<EndedCall> = {}): EndedCall {
  const times = { startedAtMs: 5000, startMs: 100, ms: 7.04 };
  return { rpc, code: "OK", ...times, subject: { containerId }, spans: [], droppedSpans: 0, ...more };
}

function recorded(act: (history: History) => void): readonly HistoryRecord[] {
  const records: HistoryRecord[] = [];
  act(new History((record) => records.push(record)));
  return records;
}

const execs = (...results: readonly Partial<EndedCall>[]): readonly HistoryRecord[] =>
  recorded((history) => {
    for (const result of results) history.callEnded(ended("ExecSync", result));
  });
const exited = (exitCode: number): Partial<EndedCall> => ({ subject: { containerId, exitCode } });

describe("a record of a call", () => {
  test("has its waits as times since its begin, without short ones of this program", () => {
    const inspect: Span = { what: "inspect", kind: "engine", startMs: 101, endMs: 101.5, children: [] };
    const spans: readonly Span[] = [
      { what: "the model", kind: "wait", startMs: 100, endMs: 100.4, children: [] },
      { what: "refresh", kind: "wait", startMs: 100.9, endMs: 101.6, children: [inspect] },
    ];
    const [record] = recorded((history) => history.callEnded(ended("StartContainer", { spans })));
    assert.deepEqual(record, {
      ...{ kind: "call", at: 5000, rpc: "StartContainer", ms: 7, code: "OK", subject: { containerId } },
      spans: [
        {
          ...{ what: "refresh", kind: "wait", at: 0.9, ms: 0.7 },
          below: [{ what: "inspect", kind: "engine", at: 1, ms: 0.5 }],
        },
      ],
    });
  });

  test("has no long text, and no secrets of engines", () => {
    const error = 'Get "https://user:s3cret@registry/v2/": Authorization: Bearer s3cret.token';
    const message = "y".repeat(900);
    const span: Span = {
      what: "x".repeat(900),
      kind: "engine",
      startMs: 100,
      endMs: 101,
      error: message,
      children: [],
    };
    const records = recorded((history) => {
      history.callEnded(ended("PullImage", { code: "UNKNOWN", message, spans: [span] }));
      history.containerEnded({
        ...{
          endedAtMs: 1,
          ranMs: 1,
          exitCode: 1,
          oomKilled: false,
          error,
          subject: { pod: "a".repeat(900) },
        },
      });
    });
    const text = JSON.stringify(records);
    assert.equal(records.length, 2);
    assert.doesNotMatch(text, /s3cret/);
    assert.ok(text.length < 2500, text);
  });

  test("is not made of calls that are about no pod", () => {
    assert.deepEqual(
      recorded((history) => {
        for (const rpc of ["UpdateRuntimeConfig", "RemoveImage"]) history.callEnded(ended(rpc));
      }),
      [],
    );
  });
});

describe("exec probes", () => {
  const seen = (records: readonly HistoryRecord[]): readonly unknown[] =>
    records.map((record) => record.kind === "call" && [record.exitCode, record.repeats ?? 0]);

  test("have a record when their result is new in the container, and those that succeed no other", () => {
    const day = Array.from({ length: 24 * 360 }, (_, at) => ({ ...exited(0), startMs: at * 10_000 }));
    assert.deepEqual(seen(execs(...day)), [[0, 0]]);
    assert.deepEqual(seen(execs(exited(0), exited(0), exited(1), exited(1), exited(0))), [
      [0, 0],
      [1, 0],
    ]);
  });

  test("have one every ten minutes at most when they fail, or change all the time, with the number of equal ones", () => {
    const probes = (minutes: number, exitCodes: readonly number[]): readonly Partial<EndedCall>[] =>
      Array.from({ length: minutes }, (_, minute) =>
        exitCodes.map((exitCode) => ({ ...exited(exitCode), startMs: minute * 60_000 })),
      ).flat();
    assert.deepEqual(seen(execs(...probes(25, [1]))), [
      [1, 0],
      [1, 9],
      [1, 9],
    ]);
    const changing = execs(...probes(25, [0, 1]));
    assert.deepEqual(seen(changing), [
      [0, 0],
      [1, 0],
      [0, 9],
      [1, 9],
      [0, 9],
      [1, 9],
    ]);
    const all = Array.from({ length: 256 }, (_, exitCode) => exitCode);
    assert.ok(execs(...probes(25, all)).length <= 3 * 9);
  });

  test("are news again when the result has changed, ten minutes after its record before", () => {
    const at = (minute: number, exitCode: number) => ({ ...exited(exitCode), startMs: minute * 60_000 });
    assert.deepEqual(seen(execs(at(0, 0), at(5, 1), at(6, 0), at(11, 0), at(30, 0))), [
      [0, 0],
      [1, 0],
      [0, 1],
    ]);
  });

  test("have their waits when they are slow", () => {
    const span: Span = { what: "start exec", kind: "engine", startMs: 100, endMs: 2100, children: [] };
    const [first, second] = execs({ ms: 2, spans: [span] }, { ms: 2000, spans: [span] });
    assert.deepEqual(first?.kind === "call" && first.spans, []);
    assert.deepEqual(second?.kind === "call" && pluck(second.spans, "what"), ["start exec"]);
  });

  test("without a record are counted by the end of their container", () => {
    const records = recorded((history) => {
      for (const exitCode of [0, 0, 1, 0, 1, 0]) history.callEnded(ended("ExecSync", exited(exitCode)));
      const end = { endedAtMs: 9, ranMs: 8, exitCode: 0, oomKilled: false, error: "" };
      history.containerEnded({ ...end, subject: { containerId } });
      history.containerEnded({ ...end, subject: { containerId } });
    });
    const ends = records.filter((record) => record.kind === "exit");
    assert.deepEqual(
      ends.map(({ execs: count, failedExecs }) => [count, failedExecs]),
      [
        [4, 1],
        [undefined, undefined],
      ],
    );
  });
});
