import assert from "node:assert/strict";
import { describe, test } from "node:test";
import countReporter from "../../../scripts/setup/count-reporter.mjs";
import {
  addCounts,
  limitFlags,
  noCounts,
  parseCounts,
  runTestsAgainWhereFailed,
} from "../../../scripts/setup/test-runner.mjs";

test("countReporter() passes on the totals of the run, the files of what failed and what was skipped, only", async () => {
  const events = [
    { type: "test:diagnostic", data: { nesting: 0, message: "tests 7" } },
    { type: "test:diagnostic", data: { nesting: 1, message: "pass 99" } },
    { type: "test:pass", data: { nesting: 0, file: "/a/passed.test.ts" } },
    { type: "test:fail", data: { nesting: 1, name: "a test", file: "/a/failed.test.ts" } },
    { type: "test:fail", data: { nesting: 0, name: "/a/crashed.test.ts" } },
    {
      type: "test:pass",
      data: { ...{ nesting: 1, name: "a\nb", file: "/a.test.ts", line: 3, column: 5 }, skip: true },
    },
    {
      type: "test:pass",
      data: { ...{ nesting: 1, name: "c", file: "/a.test.ts", line: 4, column: 5 }, todo: "soon" },
    },
    {
      type: "test:pass",
      data: { ...{ nesting: 1, name: "d", file: "/a.test.ts", line: 5, column: 5 }, skip: false },
    },
    { type: "test:diagnostic", data: { nesting: 0, message: "pass 4" } },
    { type: "test:diagnostic", data: { nesting: 0, message: "skipped 2" } },
  ];
  async function* source() {
    yield* events;
  }
  const lines: string[] = [];
  for await (const line of countReporter(source())) lines.push(line);
  assert.deepEqual(lines, [
    "failedFile /a/failed.test.ts\n",
    "failedFile /a/crashed.test.ts\n",
    'skippedTest "/a.test.ts:3:5: a\\nb"\n',
    'skippedTest "/a.test.ts:4:5: c"\n',
    "pass 4\n",
    "skipped 2\n",
  ]);
});

describe("parseCounts()", () => {
  test("counts cancelled tests as failed and open ones as skipped", () => {
    const counts = parseCounts("pass 4\nfail 1\ncancelled 2\nskipped 3\ntodo 1\n");
    assert.deepEqual(counts, { ...noCounts, passed: 4, failed: 3, skipped: 4 });
  });

  test("names each file of failed tests once", () => {
    const { failedFiles } = parseCounts(
      "failedFile /a b.test.ts\nfailedFile /c.test.ts\nfailedFile /a b.test.ts\n",
    );
    assert.deepEqual(failedFiles, ["/a b.test.ts", "/c.test.ts"]);
  });

  test("names what was skipped", () => {
    const { skippedTests } = parseCounts('skippedTest "/a.test.ts:3:5: a\\nb"\nskipped 1\nskippedTest "/a');
    assert.deepEqual(skippedTests, ["/a.test.ts:3:5: a\nb"]);
  });

  test("is all zero for a runner that wrote nothing", () => {
    assert.deepEqual(parseCounts(""), noCounts);
  });
});

test("addCounts() adds up runs", () => {
  const one = {
    ...{ passed: 1, failed: 2, skipped: 3, runnerFailures: 1 },
    ...{ failedFiles: ["/a.test.ts"], skippedTests: ["/a.test.ts:1:1: a"] },
  };
  assert.deepEqual(addCounts(one, { ...one, runnerFailures: 0 }), {
    passed: 2,
    failed: 4,
    skipped: 6,
    runnerFailures: 1,
    failedFiles: ["/a.test.ts", "/a.test.ts"],
    skippedTests: ["/a.test.ts:1:1: a", "/a.test.ts:1:1: a"],
  });
});

describe("runTestsAgainWhereFailed()", () => {
  const options = {
    ...{ root: "/", files: ["/a.test.ts", "/b.test.ts"], env: {}, concurrency: 1, runnerFlags: [] },
    timeoutMs: 1,
  };
  const leftOut = "/b.test.ts:1:1: needs another engine";
  const failed = {
    ...{ passed: 5, failed: 2, skipped: 1, runnerFailures: 1 },
    ...{ failedFiles: ["/b.test.ts"], skippedTests: [leftOut] },
  };
  const passed = { ...noCounts, passed: 3 };

  async function outcome(...results: readonly (typeof failed | typeof noCounts)[]) {
    const ran: (readonly string[])[] = [];
    const { counts, unstable } = await runTestsAgainWhereFailed(options, ({ files }) => {
      ran.push(files);
      return Promise.resolve(results[ran.length - 1] ?? noCounts);
    });
    return { ran, counts, unstable };
  }

  test("runs nothing again when all has passed", async () => {
    assert.deepEqual(await outcome(passed), { ran: [options.files], counts: passed, unstable: [] });
  });

  test("names a file that fails once, and counts it as passed", async () => {
    assert.deepEqual(await outcome(failed, passed), {
      ran: [options.files, ["/b.test.ts"]],
      counts: { ...noCounts, passed: 7, skipped: 1, skippedTests: [leftOut] },
      unstable: ["/b.test.ts"],
    });
  });

  test("fails what fails twice, or does not run the second time", async () => {
    for (const second of [failed, noCounts, { ...passed, runnerFailures: 1 }]) {
      const { counts, unstable } = await outcome(failed, second);
      assert.deepEqual([counts, unstable], [failed, []]);
    }
  });

  test("fails what is skipped the second time, unless it was so the first time", async () => {
    const other = { ...passed, skipped: 1, skippedTests: ["/b.test.ts:9:1: failed before"] };
    assert.deepEqual((await outcome(failed, other)).counts, failed);
    const same = { ...passed, skipped: 1, skippedTests: [leftOut] };
    assert.deepEqual((await outcome(failed, same)).unstable, ["/b.test.ts"]);
  });

  test("takes no second run for the rest of a first one that was killed before it had all results", async () => {
    const killed = { ...failed, passed: 0, failed: 0, skipped: 0 };
    const { counts, unstable } = await outcome(killed, passed);
    assert.deepEqual([counts, unstable], [killed, []]);
  });

  test("does not run more than three files again", async () => {
    const many = { ...failed, failedFiles: ["/1.test.ts", "/2.test.ts", "/3.test.ts", "/4.test.ts"] };
    assert.deepEqual((await outcome(many)).ran, [options.files]);
  });
});

test("limitFlags() leaves out what early versions of Node.js 20 refuse", () => {
  const limits = { concurrency: 1, timeoutMs: 5 };
  assert.deepEqual(limitFlags("20.0.0", limits), []);
  assert.deepEqual(limitFlags("20.10.0", limits), ["--test-concurrency=1"]);
  assert.deepEqual(limitFlags("22.1.0", limits), ["--test-concurrency=1", "--test-timeout=5"]);
});
