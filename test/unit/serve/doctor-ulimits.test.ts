import assert from "node:assert/strict";
import { test } from "node:test";
import { describeOpenFiles } from "../../../src/shim/serve/doctor-ulimits.js";

const low = { soft: 1024, hard: 524_288 };
const nofile = { Name: "nofile", Soft: 65_536, Hard: 524_288 };

test("describeOpenFiles() reports a low limit without --default-ulimits as a problem", () => {
  const problem = describeOpenFiles(low, []);
  assert.equal(problem.exitCode, 1);
  assert.match(problem.text, /1024 soft, 524288 hard\.\n.*see --default-ulimits\.\n$/);
  assert.equal(describeOpenFiles({ soft: 4096, hard: 4096 }, []).exitCode, 0);
});

test("describeOpenFiles() shows --default-ulimits", () => {
  const { text, exitCode } = describeOpenFiles(low, [nofile]);
  assert.equal(exitCode, 0);
  assert.match(text, /1024 soft, 524288 hard\.\n.*by --default-ulimits: 65536 soft, 524288 hard\.\n$/);
});

test("describeOpenFiles() reports an unknown limit", () => {
  const { text, exitCode } = describeOpenFiles(undefined, []);
  assert.equal(exitCode, 0);
  assert.match(text, /not known/);
});
