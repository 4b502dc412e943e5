import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { basename, join, relative } from "node:path";
import { describe, test } from "node:test";
import { repositoryRoot } from "../../../scripts/setup/paths.mjs";
import { noCounts, runTestsAgainWhereFailed } from "../../../scripts/setup/test-runner.mjs";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const runner = new URL("../../../scripts/setup/test-runner.mjs", import.meta.url).href;

/** Starts a program that runs test files with these contents in processes that share them, and prints their counts. */
async function startRun(
  directory: string,
  files: Readonly<Record<string, string>>,
  { processes = 1, timeoutMs = 60_000 },
) {
  const taken = join(directory, "taken");
  await mkdir(taken);
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
  const paths = Object.keys(files).map((name) => relative(repositoryRoot, join(directory, name)));
  // They are JavaScript: nothing has to compile them.
  const built = { root: repositoryRoot, modules: repositoryRoot };
  const options = { ...built, files: paths, taken, runnerFlags: [], timeoutMs };
  const program = `
    import { addCounts, runProcess } from ${JSON.stringify(runner)};
    // Else node's runner takes itself for a part of the run that this test belongs to.
    const { NODE_TEST_CONTEXT, ...env } = process.env;
    const run = () => runProcess({ ...${JSON.stringify(options)}, env });
    const counts = await Promise.all(Array.from({ length: ${processes} }, run));
    console.log("\\nCOUNTS" + JSON.stringify(counts.reduce(addCounts)));
  `;
  return spawn(process.execPath, ["--input-type=module", "--eval", program], { cwd: repositoryRoot });
}

async function countsOf(
  files: Readonly<Record<string, string>>,
  options: { processes?: number; timeoutMs?: number } = {},
): Promise<typeof noCounts> {
  await using directory = await temporaryDirectory();
  const child = await startRun(directory.path, files, options);
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  child.stderr.resume();
  await once(child, "close");
  const counts = JSON.parse(/^COUNTS(.*)$/m.exec(output)?.[1] ?? output) as typeof noCounts;
  return {
    ...counts,
    failedFiles: counts.failedFiles.map((file) => basename(file)),
    skippedTests: counts.skippedTests.map((place) => basename(place).replace(/:\d+:\d+:/, ":")),
  };
}

const head = 'import { beforeEach, describe, test } from "node:test";\n';

describe("runProcess()", () => {
  test("counts the tests of files that share a process, and names those that failed or were skipped", async () => {
    const found = await countsOf({
      "a.test.mjs": `${head}beforeEach((t) => { if (t.name !== "a") throw t; }); test("a", () => { throw 1; });`,
      "b.test.mjs": `${head}describe("b", () => { test("passes", () => {}); test("later", { todo: true }); });`,
      "c.test.mjs": `${head}test("c", { skip: true }, () => {});`,
      "d.test.mjs": "throw new Error('at import');",
    });
    assert.deepEqual(found, {
      passed: 1,
      failed: 2,
      skipped: 2,
      failedFiles: ["a.test.mjs", "d.test.mjs"],
      skippedTests: ["b.test.mjs: later", "c.test.mjs: c"],
    });
  });

  for (const [name, change] of Object.entries({
    "the time": "performance.now = () => 5",
    "a listener for a signal": "process.on('SIGUSR2', () => {})",
  }))
    test(`fails a file that leaves ${name} changed`, async () => {
      const { failed, failedFiles } = await countsOf({
        "a.test.mjs": `${head}test("changes it", () => { ${change}; });`,
        "b.test.mjs": `${head}test("b", () => {});`,
      });
      assert.deepEqual([failed, failedFiles], [1, ["a.test.mjs"]]);
    });

  test("runs each file in one of the processes that share it", async () => {
    const text = `${head}test("runs", () => {});`;
    const { passed, failed } = await countsOf({ "a.test.mjs": text, "b.test.mjs": text }, { processes: 2 });
    assert.deepEqual([passed, failed], [2, 0]);
  });

  test("gives each file its time, also where all of it together is more than a timer can count", async () => {
    const text = `${head}test("runs", () => {});`;
    const files = Object.fromEntries(["a", "b", "c"].map((name) => [`${name}.test.mjs`, text]));
    const { passed, failed } = await countsOf(files, { timeoutMs: 1_000_000_000 });
    assert.deepEqual([passed, failed], [3, 0]);
  });

  test("fails all files of a process that crashes", async () => {
    const { failed, failedFiles } = await countsOf({
      "a.test.mjs": `${head}test("a", () => {});`,
      "b.test.mjs": `${head}test("b", () => process.kill(process.pid, "SIGKILL"));`,
    });
    assert.ok(failed > 0);
    assert.deepEqual(failedFiles, ["a.test.mjs", "b.test.mjs"]);
  });
});

describe("runTestsAgainWhereFailed()", () => {
  const options = {
    ...{ root: "/", files: ["a.test.ts", "b.test.ts"], env: {}, runnerFlags: [] },
    timeoutMs: 1,
    flakyFiles: ["b.test.ts"],
  };
  const leftOut = "/b.test.ts:1:1: needs another engine";
  const failed = { passed: 5, failed: 2, skipped: 1, failedFiles: ["b.test.ts"], skippedTests: [leftOut] };
  const passed = { ...noCounts, passed: 3 };

  async function outcome(
    results: readonly (typeof failed | typeof noCounts)[],
    flakyFiles = options.flakyFiles,
  ) {
    const ran: (readonly string[])[] = [];
    const { counts, passedAgain } = await runTestsAgainWhereFailed(
      { ...options, flakyFiles },
      ({ files }) => {
        ran.push(files);
        return Promise.resolve(results[ran.length - 1] ?? noCounts);
      },
    );
    return { ran, counts, passedAgain };
  }

  test("counts a file that fails once as passed when it is listed", async () => {
    assert.deepEqual(await outcome([failed, passed]), {
      ran: [options.files, ["b.test.ts"]],
      counts: { ...noCounts, passed: 7, skipped: 1, skippedTests: [leftOut] },
      passedAgain: ["b.test.ts"],
    });
  });

  test("fails what fails twice, or does not run the second time", async () => {
    for (const second of [failed, noCounts]) {
      const { counts, passedAgain } = await outcome([failed, second]);
      assert.deepEqual([counts, passedAgain], [failed, []]);
    }
  });

  test("fails a file with tests that only the second run skips", async () => {
    const other = { ...passed, skipped: 1, skippedTests: ["/b.test.ts:9:1: failed before"] };
    assert.deepEqual((await outcome([failed, other])).counts, failed);
    const same = { ...passed, skipped: 1, skippedTests: [leftOut] };
    assert.deepEqual((await outcome([failed, same])).passedAgain, ["b.test.ts"]);
  });

  test("does not run more than three files again", async () => {
    const many = { ...failed, failedFiles: ["1.test.ts", "2.test.ts", "3.test.ts", "4.test.ts"] };
    assert.deepEqual((await outcome([many])).ran, [options.files]);
  });
});
