import assert from "node:assert/strict";
import { describe, test } from "node:test";
import countReporter from "../../../scripts/setup/count-reporter.mjs";
import { addCounts, limitFlags, noCounts, parseCounts } from "../../../scripts/setup/test-runner.mjs";

test("countReporter() passes on the totals of the run only", async () => {
  const events = [
    { type: "test:diagnostic", data: { nesting: 0, message: "tests 7" } },
    { type: "test:diagnostic", data: { nesting: 1, message: "pass 99" } },
    { type: "test:pass", data: { nesting: 0 } },
    { type: "test:diagnostic", data: { nesting: 0, message: "pass 4" } },
    { type: "test:diagnostic", data: { nesting: 0, message: "skipped 2" } },
  ];
  async function* source() {
    yield* events;
  }
  const lines: string[] = [];
  for await (const line of countReporter(source())) lines.push(line);
  assert.deepEqual(lines, ["pass 4\n", "skipped 2\n"]);
});

describe("parseCounts()", () => {
  test("counts cancelled tests as failed and open ones as skipped", () => {
    const counts = parseCounts("pass 4\nfail 1\ncancelled 2\nskipped 3\ntodo 1\n");
    assert.deepEqual(counts, { passed: 4, failed: 3, skipped: 4, runnerFailures: 0 });
  });

  test("is all zero for a runner that wrote nothing", () => {
    assert.deepEqual(parseCounts(""), noCounts);
  });
});

test("addCounts() adds up runs", () => {
  const one = { passed: 1, failed: 2, skipped: 3, runnerFailures: 1 };
  assert.deepEqual(addCounts(one, { ...one, runnerFailures: 0 }), {
    passed: 2,
    failed: 4,
    skipped: 6,
    runnerFailures: 1,
  });
});

test("limitFlags() leaves out what early versions of Node.js 20 refuse", () => {
  const limits = { concurrency: 1, timeoutMs: 5 };
  assert.deepEqual(limitFlags("20.0.0", limits), []);
  assert.deepEqual(limitFlags("20.10.0", limits), ["--test-concurrency=1"]);
  assert.deepEqual(limitFlags("22.1.0", limits), ["--test-concurrency=1", "--test-timeout=5"]);
});
