import assert from "node:assert/strict";
import { test } from "node:test";
import { run } from "./command-line.js";

const withFindings = [
  "migrate check",
  "migrate plan",
  "migrate rehearse",
  "diff",
  "replay",
  "shadow",
  "checkpoint verify",
  "checkpoint repair",
];
const without = ["record", "checkpoint ls", "checkpoint convert"];

for (const command of [...withFindings, ...without]) {
  test(`the help of "${command}" says its exit codes`, async () => {
    const { out, exitCode } = await run(`${command} --help`);
    assert.equal(exitCode, 0);
    const codes = out
      .slice(out.indexOf("Exit codes:\n"))
      .split("\n")
      .flatMap((line) => /^ {2}(\d) {2}\w/.exec(line)?.[1] ?? []);
    assert.deepEqual(codes, withFindings.includes(command) ? ["0", "1", "2"] : ["0", "1"]);
  });
}

test("the help of migrate plan names no target that has no plan", async () => {
  const { out } = await run("migrate plan --help");
  assert.match(out, /dockershim-in-tree,\s+cri-dockerd;\s/);
  assert.doesNotMatch(out, /containerd/);
});
