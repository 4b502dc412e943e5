import assert from "node:assert/strict";
import { test } from "node:test";
import { compareAnswers, type CompareOptions } from "../../../../src/compare/answers/compare-answers.js";
import type { PipedCall } from "../../../../src/compare/relay/call-pipe.js";
import { newReport } from "../../../../src/compare/observe-calls.js";
import { Redactor } from "../../../../src/compare/record/redact.js";
import { ShadowComparison, type Ask } from "../../../../src/compare/shadow/shadow-comparison.js";
import { ReportBuilder } from "../../../../src/compare/shadow/shadow-report.js";
import { piped } from "../grpc-peers.js";

function bench(answers: { primary?: Ask; shadow: Ask; compareOptions?: CompareOptions }) {
  const paths = { listen: "/l", relay: "/r", primary: "/p" };
  const report = newReport({ paths, endpoint: "/e", startedAt: "2026-01-31T00:00:00Z" });
  const builder = new ReportBuilder(report);
  const redactor = new Redactor({ keepDefaults: true });
  const comparison = new ShadowComparison({
    askPrimary: answers.primary ?? (() => assert.fail("the primary was asked")),
    askShadow: answers.shadow,
    compare: compareAnswers,
    compareOptions: answers.compareOptions ?? {},
    report: builder,
    redactor,
    now: () => "now",
    settleMs: 0,
  });
  return { comparison, report, builder, redactor };
}

const pod = (id: string, state: number, annotations: Record<string, string> = {}): object => ({
  id,
  metadata: { name: id, uid: id, namespace: "default", attempt: 0 },
  state,
  created_at: "1",
  labels: {},
  annotations,
});
const list = (...items: object[]): PipedCall => piped("ListPodSandbox", {}, { items });

test("ShadowComparison reports what differs twice, by RPC and field, with examples", async () => {
  const { comparison, report } = bench({
    primary: () => Promise.resolve({ items: [pod("a", 0)] }),
    shadow: () => Promise.resolve({ items: [pod("a", 1)] }),
  });
  for (let round = 0; round < 3; round += 1) {
    comparison.offer(list(pod("a", 0)));
    await comparison.settled();
  }
  assert.equal(report.rpcs["ListPodSandbox"]?.compared, 3);
  assert.equal(report.rpcs["ListPodSandbox"].equal, 0);
  const [difference, ...rest] = report.differences;
  assert.deepEqual(rest, []);
  assert.deepEqual([difference?.rpc, difference?.count], ["ListPodSandbox", 3]);
  assert.match(difference?.field ?? "", /state$/);
  assert.deepEqual([difference?.examples[0]?.primary, difference?.examples[0]?.shadow], ["0", "1"]);
});

test("ShadowComparison reports nothing when the answers are equal at the second question", async () => {
  const { comparison, report } = bench({
    primary: () => Promise.resolve({ items: [pod("a", 1)] }),
    shadow: () => Promise.resolve({ items: [pod("a", 1)] }),
  });
  comparison.offer(list(pod("a", 0)));
  await comparison.settled();
  assert.deepEqual(report.differences, []);
  assert.equal(report.rpcs["ListPodSandbox"]?.passing, 1);
});

test("ShadowComparison reports intended differences without a second question", async () => {
  const { comparison, report } = bench({
    shadow: () => Promise.resolve({ items: [{ ...pod("a", 0), created_at: "1795446187316905154" }] }),
    compareOptions: { servers: { left: "cri-dockerd", right: "dockershim" } },
  });
  comparison.offer(list({ ...pod("a", 0), created_at: "1795446187000000000" }));
  await comparison.settled();
  const found = report.differences.map(({ field, intended }) => [field, intended?.key]);
  assert.deepEqual(found, [["items[].created_at", "created-at-seconds"]]);
});

test("ShadowComparison shows no secret of an annotation", async () => {
  const secret = { "example.com/token": "very-secret" };
  const { comparison, report } = bench({
    primary: () => Promise.resolve({ items: [pod("a", 0, secret)] }),
    shadow: () => Promise.resolve({ items: [pod("a", 0, { "example.com/token": "other-secret" })] }),
  });
  comparison.offer(list(pod("a", 0, secret)));
  await comparison.settled();
  assert.equal(report.differences.length, 1);
  assert.match(JSON.stringify(report), /redacted:1/);
  assert.ok(!/very-secret|other-secret/.test(JSON.stringify(report)));
});

test("ShadowComparison asks for read-only calls alone, and counts questions without an answer", async () => {
  const asked: string[] = [];
  const { comparison, report } = bench({
    shadow: (rpc) => {
      asked.push(rpc);
      return Promise.reject(new Error("gone"));
    },
  });
  comparison.offer(piped("StopPodSandbox", { pod_sandbox_id: "a" }, {}));
  comparison.offer(piped("ExecSync", { container_id: "a", cmd: ["true"] }, {}));
  comparison.offer({ ...list(), end: "cancelled" });
  comparison.offer(list());
  await comparison.settled();
  assert.deepEqual(asked, ["ListPodSandbox"]);
  assert.equal(report.unanswered.count, 1);
  assert.match(report.unanswered.last, /gone/);
});

test("ShadowComparison skips calls while it lags, and counts them", async () => {
  let answer = (): void => undefined;
  const gate = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const { comparison, report } = bench({
    shadow: async () => {
      await gate;
      return { items: [] };
    },
  });
  for (let index = 0; index < 1000; index += 1) comparison.offer(list());
  assert.ok((comparison.sizes["queue"] ?? 0) <= 200);
  answer();
  await comparison.settled();
  const counts = report.rpcs["ListPodSandbox"];
  assert.equal(counts?.observed, 1000);
  assert.equal(counts.compared + counts.skipped, 1000);
  assert.equal(counts.equal, counts.compared);
});

test("nothing grows over thousands of calls whose answers differ in ever new ways", async () => {
  const offered = process.env["DOCKERSHIM_TEST_LONG"] === "1" ? 20_000 : 4_000;
  let calls = 0;
  const shadow: Ask = () => {
    calls += 1;
    const annotations = { [`k${String(calls)}`]: "x", "example.com/token": `secret-${String(calls)}` };
    return Promise.resolve({ items: [pod(`pod-${String(calls % 5000)}`, calls % 2, annotations)] });
  };
  const { comparison, report, builder, redactor } = bench({ primary: shadow, shadow });
  const seen = Array.from({ length: 50 }, (_, index) => list(pod(`pod-${String(index)}`, 0)));
  for (let index = 0; index < offered; index += 1) {
    const call = seen[index % seen.length];
    assert.ok(call);
    comparison.offer(call);
    if (index % 100 === 99) await new Promise((resolve) => setImmediate(resolve));
  }
  await comparison.settled();
  assert.equal(report.rpcs["ListPodSandbox"]?.observed, offered);
  assert.deepEqual(comparison.sizes, { queue: 0, running: 0, confirming: 0 });
  assert.ok((builder.sizes["kinds"] ?? 0) <= 500);
  assert.ok((builder.sizes["examples"] ?? 0) <= 1500);
  assert.ok((redactor.sizes["known"] ?? 0) <= 2000);
  assert.ok(JSON.stringify(report).length < 2_000_000);
});
