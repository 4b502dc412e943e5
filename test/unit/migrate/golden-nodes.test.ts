/** What `migrate check` and `migrate plan` say of the nodes of test/golden/nodes. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { describe, test } from "node:test";
import { ShimError } from "../../../src/lib/errors.js";
import { configuredRuntime, socketPath } from "../../../src/migrate/kubelet/target.js";
import { type MigrationPlan, previousTarget, reversePlan } from "../../../src/migrate/plan/make-plan.js";
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

/** The plan, or why there is none. */
async function askPlan(...args: Parameters<typeof planOf>): Promise<MigrationPlan | string> {
  try {
    return await planOf(...args);
  } catch (error) {
    if (!(error instanceof ShimError) || error.kind !== "precondition") throw error;
    return `refused: ${error.message.replace("plan the migration: ", "")}\n`;
  }
}

/** The exit code, the lines that change, and the commands. Of a new unit of this program its command alone. */
function planText({ edits, notUnderstood, notes, commands }: MigrationPlan): string {
  const lines = edits.flatMap(({ path, before = "", after = "" }) => {
    const [old, now] = [before.split("\n"), after.split("\n")];
    const added = now.filter((line) => !old.includes(line));
    const isUnit = path === shimUnitPath && before === "";
    if (isUnit) assert.equal(after, shimUnit(/^ExecStart=(.*)$/m.exec(after)?.[1] ?? ""));
    return [
      `${path}:`,
      ...old.filter((line) => !now.includes(line)).map((line) => `- ${line}`),
      ...added.filter((line) => !isUnit || line.startsWith("ExecStart=")).map((line) => `+ ${line}`),
    ];
  });
  const left = notUnderstood.map(({ place, text }) => `NOT CHANGED ${place}: ${text}`);
  const said = notes.filter((note) => !note.includes("is not there yet")).map((note) => `NOTE ${note}`);
  const exit = `exit ${notUnderstood.length > 0 ? 2 : 0}`;
  return [exit, ...lines, ...left, ...said, ...commands.map((command) => `$ ${command}`)]
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
      const named = (flag("--to") ?? "dockershim") as Target;
      const version = flag("--kubelet-version") ?? own;
      if (verb === "check") {
        test(command, async (t) => {
          assert.equal(await checkText(t, { tree, target: named, version }), text);
        });
        continue;
      }
      test(`${command}, and writes nothing`, async (t) => {
        const root = await makeNode(t, tree);
        const before = await snapshot(root);
        const facts = await factsOf(root, version);
        const target = words.includes("--back") ? previousTarget(facts) : named;
        const plan = await askPlan(root, version, target);
        assert.equal(typeof plan === "string" ? plan : planText(plan), text);
        assert.deepEqual(await snapshot(root), before);
        if (typeof plan === "string" || !hasPatch()) return;
        const patch = (input: string): void => {
          execFileSync("patch", ["-p1", "-d", root, "--no-backup-if-mismatch", "-s"], { input });
        };
        if (plan.edits.length > 0) patch(renderPlan(plan));
        const [old, now] = [configuredRuntime(facts), configuredRuntime(await factsOf(root, version))];
        // Of two units at one socket the commands decide, which nothing here carries out.
        const isSameSocket = socketPath(old.endpoint) === socketPath(now.endpoint);
        assert.equal(now.runtime, isSameSocket ? old.runtime : target);
        assert.deepEqual((await planOf(root, version, target)).edits, []);
        if (plan.edits.length > 0) patch(renderPlan(reversePlan(plan, facts)));
        assert.deepEqual(await snapshot(root), before);
      });
    }
  });
}
