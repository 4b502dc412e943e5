import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { explain } from "../../../src/history/explain.js";
import { findSubjects } from "../../../src/history/find-subjects.js";
import type {
  CallRecord,
  ExitRecord,
  HistoryRecord,
  RecordedSpan,
} from "../../../src/history/history-record.js";

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const begin = Date.UTC(2026, 0, 2, 12, 0, 0);

const sandboxId = "5a".repeat(32);
const pod = { pod: "default/web", podUid: "uid-1", sandboxId };
const app = { ...pod, containerName: "app", containerId: "a1".repeat(32) };

function call(rpc: string, after: number, ms: number, more: Partial<CallRecord> = {}): CallRecord {
  const subject = /Container|Exec/.test(rpc) ? app : pod;
  return { kind: "call", at: begin + after, rpc, ms, code: "OK", subject, spans: [], ...more };
}

function end(after: number, ms: number, exitCode: number, more: Partial<ExitRecord> = {}): ExitRecord {
  return { kind: "exit", at: begin + after, exitCode, oomKilled: false, ms, subject: app, ...more };
}

function span(kind: RecordedSpan["kind"], what: string, at: number, ms: number, more = {}): RecordedSpan {
  return { kind, what, at, ms, ...more };
}

/** One start of the container, which then ends by itself. */
const life = (after: number, exit: Partial<ExitRecord>): readonly HistoryRecord[] => [
  call("CreateContainer", after, 100),
  call("StartContainer", after + 100, 200),
  end(after + 2300, 2000, 1, exit),
];

const image = "registry.example/big:1";
const pulled = { subject: { ...pod, image }, spans: [span("pull", `pull image "${image}"`, 10, 37_700)] };
const del = 'CNI plugin "bridge" DEL for pod "default/web"';
const hung = {
  ...{ code: "DEADLINE_EXCEEDED", error: "the deadline of the caller has passed" },
  spans: [
    span("wait", "tear down the network", 0, 30 * second, {
      below: [span("plugin", del, 0, 30 * second, { error: "killed" })],
    }),
  ],
};
const started = [call("RunPodSandbox", 0, 900), ...life(1000, {}).slice(0, 2)];

/** What happened, until when, and what the first lines say. */
const stories: Readonly<
  Record<
    string,
    readonly [records: readonly HistoryRecord[], afterMs: number, causes: readonly (string | RegExp)[]]
  >
> = {
  "a slow pull": [
    [
      call("RunPodSandbox", 0, 900, { spans: [span("engine", "create container", 0, 300)] }),
      call("PullImage", 1000, 37_720, pulled),
      call("CreateContainer", 38_800, 200),
      call("StartContainer", 39_000, 2000),
    ],
    hour,
    ["92 % of 41 s until its containers ran: pull of registry.example/big:1 from registry.example"],
  ],
  "a start that waits for an init container": [
    [
      call("RunPodSandbox", 0, 900),
      call("StartContainer", 1000, 200, { subject: { ...app, containerName: "init" } }),
      end(19_000, 18_000, 0, { subject: { ...app, containerName: "init" } }),
      call("CreateContainer", 19_100, 300),
      call("StartContainer", 19_500, 500),
    ],
    hour,
    [/^90 % of 20 s until its containers ran: "init", until it ended$/, /^container "init" ended by itself/],
  ],
  "a hanging plugin": [
    [...started, ...[100, 160, 220, 280].map((at) => call("StopPodSandbox", at * second, 30 * second, hung))],
    hour,
    [
      "DEL of bridge hung 30 s, retried 3 times: killed",
      "StopPodSandbox failed 4 times, last 55 min ago (12:04:40): DEADLINE_EXCEEDED: the deadline of the caller has passed",
    ],
  ],
  "a crash loop after a slow plugin": [
    [
      call("RunPodSandbox", 0, 12_500, {
        spans: [span("plugin", 'CNI plugin "bridge" ADD for pod "default/web"', 100, 12 * second)],
      }),
      ...[0, 20].flatMap((at) => life(13 * second + at * second, {})),
    ],
    minute,
    [/^container "app" ended by itself twice, /, "ADD of bridge took 12 s", /^\d\d % of 13 s/],
  ],
  "a crash loop": [
    [...started, ...[0, 20, 60].flatMap((at) => life(10 * second + at * second, {}))],
    5 * minute,
    [
      'container "app" ended by itself 3 times, last 3 min ago (12:01:12) after it ran 2.0 s, with exit code 1',
    ],
  ],
  "an engine that ended, and its containers with it": [
    [...started, ...life(10 * second, { exitCode: 137 })],
    minute,
    [
      / ended once, last .* with exit code 137 \(SIGKILL: no call sent it, but the engine's end or the node\)$/,
    ],
  ],
  "an OOM kill": [
    [call("RunPodSandbox", 0, 900), ...life(1000, { exitCode: 137, oomKilled: true })],
    minute,
    [
      'container "app" was killed for want of memory (OOMKilled) once, last 57 s ago (12:00:03) after it ran 2.0 s',
    ],
  ],
  "an OOM kill before another end": [
    [
      call("RunPodSandbox", 0, 900),
      ...life(1000, { exitCode: 137, oomKilled: true }),
      ...life(10_000, { exitCode: 1 }),
    ],
    minute,
    [
      'container "app" was killed for want of memory (OOMKilled) once of 2 ends, last 57 s ago (12:00:03) after it ran 2.0 s',
    ],
  ],
  "a pod refused": [
    [0, 10].map((at) =>
      call("RunPodSandbox", at * second, 5, { code: "INVALID_ARGUMENT", error: 'sysctl "x": not allowed' }),
    ),
    minute,
    [
      'RunPodSandbox failed twice, last 50 s ago (12:00:10): INVALID_ARGUMENT: sysctl "x": not allowed',
      "100 % of 10 s, in which no container was started: no call before RunPodSandbox",
    ],
  ],
  "a job that failed, whose pod is stopped at once": [
    [
      ...started,
      end(5000, 3700, 1),
      call("StopPodSandbox", 6000, 400),
      end(6300, 5400, 137, { subject: pod }),
      call("RemovePodSandbox", 7000, 300),
    ],
    minute,
    [
      'container "app" ended by itself once, last 55 s ago (12:00:05) after it ran 3.7 s, with exit code 1',
      /^the client removed the pod/,
    ],
  ],
  "more calls than a function has arguments": [
    Array.from({ length: 150_000 }, (_, at) =>
      call("CreateContainer", at, 0.5, { code: "UNKNOWN", error: "no" }),
    ),
    hour,
    [/^CreateContainer of "app" failed 150000 times/, /^50 % of 2 min, in which/],
  ],
  "a pod deleted an hour ago": [
    [
      ...started,
      call("StopContainer", hour, 2000),
      end(hour + 1990, hour, 143),
      call("StopPodSandbox", hour + 3000, 400),
      call("RemovePodSandbox", hour + 4000, 300),
    ],
    2 * hour + 4000,
    ["the client removed the pod 1 h ago (13:00:04), 1 h after its first call"],
  ],
  "a debugger that came hours later": [
    [
      ...started,
      call("PullImage", 3 * hour, 2000, { subject: { ...pod, image } }),
      call("StartContainer", 3 * hour + 2500, 200, { subject: { ...app, containerName: "debugger" } }),
    ],
    4 * hour,
    [/^69 % of 1\.3 s until its containers ran: RunPodSandbox$/],
  ],
  "a pod deleted hours after a probe had failed": [
    [
      ...started,
      call("ExecSync", 20_000, 30, { exitCode: 1 }),
      call("StopContainer", 3 * hour, 500),
      end(3 * hour + 400, 3 * hour, 143),
    ],
    4 * hour,
    ['exec probes or hooks of "app" failed once, as 3 h 59 min ago (12:00:20) with exit code 1 after 30 ms'],
  ],
  "a probe that fails": [
    [
      ...started,
      call("ExecSync", 2000, 20, { exitCode: 0 }),
      call("ExecSync", 20_000, 30, { exitCode: 1 }),
      call("ExecSync", 25_000, 30, { exitCode: 0, repeats: 7 }),
      call("ExecSync", 27_000, 30, { exitCode: 1, repeats: 2 }),
      call("ExecSync", 30_000, 30, { code: "DEADLINE_EXCEEDED" }),
      call("StopContainer", 31_000, 500),
      end(31_400, 30_000, 143, { execs: 9, failedExecs: 3 }),
    ],
    minute,
    [
      'exec probes or hooks of "app" failed 8 times, as 30 s ago (12:00:30) with DEADLINE_EXCEEDED after 30 ms; then the client stopped the container',
    ],
  ],
};

describe("the first lines say the cause of", () => {
  for (const [name, [records, afterMs, causes]] of Object.entries(stories))
    test(name, () => {
      const [found] = findSubjects(records, "default/web");
      assert.ok(found);
      const said = explain(found, begin + afterMs).causes.slice(0, 3);
      for (const [index, cause] of causes.entries())
        if (typeof cause === "string") assert.equal(said[index], cause);
        else assert.match(said[index] ?? "", cause);
    });
});

describe("a pod of the history", () => {
  const other = { pod: "other/web", podUid: "uid-2", sandboxId: "6b".repeat(32) };
  const records: readonly HistoryRecord[] = [
    ...started,
    { kind: "lost", at: begin, count: 3 },
    call("RunPodSandbox", 5000, 10, { subject: other }),
    // Without what other records say of it.
    call("StopContainer", 6000, 10, { subject: { containerId: app.containerId } }),
    call("PullImage", 500, 10, { subject: { pod: "default/web", image } }),
    end(6500, 1, 0),
    end(6500, 1, 0),
  ];
  const uidsOf = (wanted: string): readonly string[] =>
    findSubjects(records, wanted).map(({ podUid }) => podUid);

  for (const [wanted, uids] of Object.entries({
    "default/web": ["uid-1"],
    "uid-2": ["uid-2"],
    web: ["uid-1", "uid-2"],
    app: ["uid-1"],
    [sandboxId]: ["uid-1"],
    "5a5a": ["uid-1"],
    "5a5": [],
    a1a1a1a1: ["uid-1"],
    nothing: [],
  }))
    test(`is found by ${wanted}`, () => {
      assert.deepEqual([...uidsOf(wanted)].sort(), uids);
    });

  test("has its steps in order, each end of a container once", () => {
    const [found] = findSubjects(records, "default/web");
    assert.ok(found);
    assert.deepEqual(
      explain(found, begin).steps.map(({ what, result }) => `${what}: ${result}`),
      [
        "RunPodSandbox: OK",
        `PullImage of "${image}": OK`,
        'CreateContainer of "app": OK',
        'StartContainer of "app": OK',
        'StopContainer of "app": OK',
        '"app" ended: exit code 0',
      ],
    );
  });

  test("is that of one container for its name, with what the pod did", () => {
    const more = call("StartContainer", 7000, 1, { subject: { ...pod, containerName: "side" } });
    const [found] = findSubjects([...records, more], "side");
    assert.equal(found?.container, "side");
    assert.deepEqual(
      found.records.map((record) => (record.kind === "call" ? record.rpc : record.kind)),
      ["RunPodSandbox", "PullImage", "StartContainer"],
    );
  });
});
