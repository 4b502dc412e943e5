/** What `migrate check` and `migrate plan` say of the nodes of test/golden/nodes. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { describe, test } from "node:test";
import { configuredRuntime } from "../../../src/migrate/kubelet/target.js";
import { type MigrationPlan, reversePlan } from "../../../src/migrate/plan/make-plan.js";
import { renderPlan } from "../../../src/migrate/plan/render-plan.js";
import { defaultProgram, shimUnit, shimUnitPath } from "../../../src/migrate/plan/shim-unit.js";
import { check } from "./check-bed.js";
import { goldenNodes, makeNode } from "./nodes.js";
import { factsOf, planOf, snapshot, type Target } from "./plan-bed.js";

function hasPatch(): boolean {
  try {
    execFileSync("patch", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

test("shimUnit() is the example's unit", async () => {
  const example = await readFile(new URL("../../../examples/dockershim.service", import.meta.url), "utf8");
  assert.equal(shimUnit(`${defaultProgram} --network-plugin=cni`), example);
});

/** The lines that change, and the commands. Of this program's unit its command alone. */
function planText({ edits, notUnderstood, commands }: MigrationPlan): string {
  const lines = edits.flatMap(({ path, before = "", after = "" }) => {
    const [old, now] = [before.split("\n"), after.split("\n")];
    const added = now.filter((line) => !old.includes(line));
    const isUnit = path === shimUnitPath;
    if (isUnit) assert.equal(after, shimUnit(/^ExecStart=(.*)$/m.exec(after)?.[1] ?? ""));
    return [
      `${path}:`,
      ...old.filter((line) => !now.includes(line)).map((line) => `- ${line}`),
      ...added.filter((line) => !isUnit || line.startsWith("ExecStart=")).map((line) => `+ ${line}`),
    ];
  });
  const left = notUnderstood.map(({ place, text }) => `NOT CHANGED ${place}: ${text}`);
  return [...lines, ...left, ...commands.map((command) => `$ ${command}`)]
    .map((line) => `${line}\n`)
    .join("");
}

/** The exit code, and the findings by level. */
async function checkText(...args: Parameters<typeof check>): Promise<string> {
  const { summary, findings } = await check(...args);
  const levels = [...new Set(findings.map(({ level }) => level))];
  const lines = levels.map((level) => {
    const ids = findings.filter((finding) => finding.level === level).map(({ id }) => id);
    return `${level}: ${ids.join(", ")}\n`;
  });
  return `exit ${summary.exitCode}\n${lines.join("")}`;
}

for (const { name, version: own, tree, says } of goldenNodes) {
  describe(name, () => {
    for (const { command, text } of says) {
      const [verb, ...words] = command.split(" ");
      const flag = (key: string): string | undefined => words[words.indexOf(key) + 1 || words.length];
      const target = (flag("--to") ?? "dockershim") as Target;
      const version = flag("--kubelet-version") ?? own;
      if (verb === "check") {
        test(command, async (t) => {
          assert.equal(await checkText(t, { tree, target, version }), text);
        });
        continue;
      }
      test(`${command}, and writes nothing`, async (t) => {
        const root = await makeNode(t, tree);
        const before = await snapshot(root);
        const plan = await planOf(root, version, target);
        assert.equal(planText(plan), text);
        assert.deepEqual(await snapshot(root), before);
        if (!hasPatch()) return;
        const facts = await factsOf(root, version);
        const patch = (input: string): void => {
          execFileSync("patch", ["-p1", "-d", root, "--no-backup-if-mismatch", "-s"], { input });
        };
        if (plan.edits.length > 0) patch(renderPlan(plan));
        assert.equal(configuredRuntime(await factsOf(root, version)).runtime, target);
        assert.deepEqual((await planOf(root, version, target)).edits, []);
        if (plan.edits.length > 0) patch(renderPlan(reversePlan(plan, facts)));
        assert.deepEqual(await snapshot(root), before);
      });
    }
  });
}
