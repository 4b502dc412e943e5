/** What `migrate check` and `migrate plan` say of the nodes of test/golden/nodes. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import { ShimError } from "../../../src/lib/errors.js";
import { configuredRuntime, lastInTreeMinor, socketPath } from "../../../src/migrate/kubelet/target.js";
import { choosePlan } from "../../../src/migrate/cli/migrate-command.js";
import type { MigrationFacts } from "../../../src/migrate/facts/facts.js";
import { NodeFiles } from "../../../src/migrate/files/node-files.js";
import { readService } from "../../../src/migrate/kubelet/read-kubelet.js";
import { type MigrationPlan, makePlan, reversePlan } from "../../../src/migrate/plan/make-plan.js";
import type { FileEdit } from "../../../src/migrate/plan/unified-diff.js";
import { renderPlan } from "../../../src/migrate/plan/render-plan.js";
import { defaultProgram, shimUnit, shimUnitPath } from "../../../src/migrate/plan/shim-unit.js";
import { check } from "./check-bed.js";
import { goldenNodes, makeNode } from "./nodes.js";
import { factsOf, snapshot, type Target } from "./plan-bed.js";

function hasProgram(name: string): boolean {
  return spawnSync(name, ["--version"], { stdio: "ignore" }).status === 0;
}

const hasPatch = hasProgram("patch");
const noVerify = hasProgram("systemd-analyze") ? false : "systemd-analyze is not installed";

/** What systemd says of the units of the node, without numbers of lines. */
async function complaints(root: string): Promise<readonly string[]> {
  const names = ["kubelet.service", "dockershim.service"];
  const units = [];
  for (const name of names) {
    const service = await readService(new NodeFiles(root), name);
    const [, path] = /^(\/[^%]+)$/.exec(service?.command.words[0]?.text ?? "") ?? [];
    if (path === undefined || service === undefined) continue;
    units.push(name);
    if ((await new NodeFiles(root).kindOf(path)) !== "absent") continue;
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), "", { mode: 0o755 });
  }
  const flags = [`--root=${root}`, "--man=no", "--recursive-errors=no"];
  const { stderr } = spawnSync("systemd-analyze", ["verify", ...flags, ...units], { encoding: "utf8" });
  return stderr.split("\n").map((line) => line.replace(/:\d+:/, ":"));
}

test("shimUnit() is the example's unit", async () => {
  const example = await readFile(new URL("../../../examples/dockershim.service", import.meta.url), "utf8");
  assert.equal(shimUnit(`${defaultProgram} --network-plugin=cni`), example);
});

interface Asked {
  readonly back: boolean;
  readonly to?: Target | undefined;
}

/** The plan, or why there is none. */
async function askPlan(facts: MigrationFacts, { back, to }: Asked): Promise<MigrationPlan | string> {
  try {
    return await choosePlan({ to, back, write: false, program: defaultProgram }, facts);
  } catch (error) {
    if (!(error instanceof ShimError) || error.kind !== "precondition") throw error;
    return `refused: ${error.message.replace("plan the migration: ", "")}\n`;
  }
}

/** The exit code, the lines that change, and the commands. Of a new unit of this program its command alone. */
function planText({ edits, notUnderstood, notes, commands }: MigrationPlan): string {
  const lines = edits.flatMap(({ path, before = "", after }) => {
    if (after === undefined) return [`${path}: removed`];
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
        const root = makeNode(t, tree);
        const before = snapshot(root);
        const facts = await factsOf(root, version);
        const to = words.includes("--to") ? named : undefined;
        const plan = await askPlan(facts, { to, back: words.includes("--back") });
        assert.equal(typeof plan === "string" ? plan : planText(plan), text);
        assert.deepEqual(snapshot(root), before);
        const old = configuredRuntime(facts);
        // The edits back of a node that is not there yet have nothing to change.
        if (typeof plan === "string" || !hasPatch || plan.from !== old.runtime) return;
        const target = plan.to as Target;
        const edit = async (asked: MigrationPlan): Promise<void> => {
          for (const { path, after } of asked.edits)
            await (after === undefined ? rm(join(root, path)) : writeFile(join(root, path), after));
        };
        const input = renderPlan(plan);
        if (plan.edits.length > 0)
          execFileSync("patch", ["-p1", "-d", root, "--no-backup-if-mismatch", "-s"], { input });
        const after = await factsOf(root, version);
        const now = configuredRuntime(after);
        // Of two units at one socket the commands decide, which nothing here carries out.
        const isSameSocket = socketPath(old.endpoint) === socketPath(now.endpoint);
        assert.equal(now.runtime, isSameSocket ? old.runtime : target);
        assert.deepEqual((await makePlan(after, { target, program: defaultProgram })).edits, []);
        const isWhole = plan.notUnderstood.length === 0 && plan.from !== target && !isSameSocket;
        const hasWayBack =
          plan.from !== "dockershim-in-tree" || (facts.kubelet.version?.minor ?? 0) <= lastInTreeMinor;
        if (target === "dockershim" && isWhole && hasWayBack) {
          const way = await askPlan(after, { back: true });
          assert.ok(typeof way === "object");
          await edit(way);
          assert.equal(configuredRuntime(await factsOf(root, version)).runtime, old.runtime);
          await edit(reversePlan(way, after));
        }
        await edit(reversePlan(plan, facts));
        assert.deepEqual(snapshot(root), before);
        // The whole unit of this program is that of every node.
        const isUnit = ({ path }: FileEdit): boolean =>
          path.includes("/systemd/system/") && path !== shimUnitPath;
        if (!plan.edits.some(isUnit) && name !== "kubeadm-1.30") return;
        await t.test(
          "systemd reads what is written as it read what was there",
          { skip: noVerify },
          async () => {
            const known = await complaints(root);
            await edit(plan);
            const said = await complaints(root);
            const found = said.filter((line) => !known.includes(line));
            assert.deepEqual(found, []);
          },
        );
      });
    }
  });
}
