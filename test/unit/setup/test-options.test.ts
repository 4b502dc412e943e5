import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { run } from "../../../scripts/setup/run.mjs";
import { repositoryRoot } from "../../../scripts/setup/paths.mjs";
import { isAsked, testOptions, usage, UsageError } from "../../../scripts/setup/test-options.mjs";

const nothing = { unit: false, long: false, endpoint: undefined, runnerFlags: [], words: [] };

describe("testOptions()", () => {
  const understood: [string[], ReturnType<typeof testOptions>][] = [
    [[], nothing],
    [["--unit", "mounts", "--no-setup", "plan"], { ...nothing, unit: true, words: ["mounts", "plan"] }],
    [
      ["--long", "--test-name-pattern=a b"],
      { ...nothing, long: true, runnerFlags: ["--test-name-pattern=a b"] },
    ],
    [
      ["--docker-endpoint", "unix:///a", "unix:///a"],
      { ...nothing, endpoint: "unix:///a", words: ["unix:///a"] },
    ],
    [
      ["--docker-endpoint", "unix:///a", "--docker-endpoint=unix:///b=c"],
      { ...nothing, endpoint: "unix:///b=c" },
    ],
    [["pull", "-h"], "help"],
    [["--frobnicate", "--help"], "help"],
  ];
  for (const [argv, expected] of understood)
    test(`understands "${argv.join(" ")}"`, () => assert.deepEqual(testOptions(argv), expected));

  for (const argv of [
    ["--frobnicate"],
    ["--unit=1"],
    ["pull", "-u"],
    ["--docker-endpoint"],
    ["--docker-endpoint="],
    ["--docker-endpoint", "--unit"],
  ])
    test(`refuses "${argv.join(" ")}"`, () => assert.throws(() => testOptions(argv), UsageError));
});

describe("isAsked()", () => {
  const path = "test/integration/play.test.ts";
  const cases: [string[], boolean][] = [
    [[], true],
    [["mounts", "play"], true],
    [["mounts"], false],
    [["!play"], false],
    [["!mounts"], true],
    [["integration", "!play"], false],
  ];
  for (const [words, expected] of cases)
    test(`is ${String(expected)} for ${path} and [${words.join(" ")}]`, () =>
      assert.equal(isAsked(path, words), expected));
});

describe("scripts/test.mjs", () => {
  test("refuses an unknown flag with code 2 and its usage before it sets anything up", async () => {
    // If it ran tests, it would find none.
    const argv = ["scripts/test.mjs", "--frobnicate", "--unit", "--no-setup", "no file of this name"];
    const { code, output } = await run(process.execPath, argv, { cwd: repositoryRoot, timeoutMs: 60_000 });
    assert.equal(code, 2);
    assert.match(output, /^npm test: .*--frobnicate/);
    assert.ok(output.endsWith(`\n\n${usage}`), output);
  });
});
