import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { runQueues } from "../../../scripts/setup/test-queues.mjs";
import { addCounts, noCounts } from "../../../scripts/setup/test-runner.mjs";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const texts = {
  "a.test.ts": "await withOwnEngine(import.meta.url, [], () => undefined);\n",
  "b.test.ts": 'describe("b", () => undefined);\n',
  "c.test.ts": "await inNamespaces(import.meta.url, [], () => undefined);\n",
  "d.test.ts": 'describe("d", () => undefined);\n',
  "e.test.ts": "await withOwnEngine(import.meta.url, [], () => undefined);\n",
};

/** Of the given engine, and one that may move. */
const movable = { "lifecycle.test.ts": texts["b.test.ts"] };

interface Run {
  readonly file: string;
  readonly runnerFlags: readonly string[];
  readonly command: readonly string[];
  readonly variable: string | undefined;
}

async function schedule(
  outcome: (file: string) => Partial<typeof noCounts> = () => ({ passed: 1 }),
  {
    files = texts,
    mayMove = false,
  }: { readonly files?: Readonly<Record<string, string>>; readonly mayMove?: boolean } = {},
) {
  await using directory = await temporaryDirectory();
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory.path, name), text);
  const runs: Run[] = [];
  const running = { shared: 0, most: 0, open: 0, processes: 0 };
  const options = {
    root: directory.path,
    files: Object.keys(files),
    mayMove,
    env: {},
    runnerFlags: [],
    timeoutMs: 1_000,
  };
  const counts = await runQueues(options, {
    run: async ({ files, command = [], env, runnerFlags }) => {
      for (const file of files) runs.push({ file, command, variable: env["INSIDE"], runnerFlags });
      running.processes += 1;
      const isShared = command.length === 0 && /^[bdl]/.test(files[0] ?? "");
      if (isShared) running.most = Math.max(running.most, (running.shared += 1));
      await sleep(files.includes("b.test.ts") ? 50 : 5);
      if (isShared) running.shared -= 1;
      return files.reduce((sum, file) => addCounts(sum, { ...noCounts, ...outcome(file) }), noCounts);
    },
    open: () => {
      running.open += 1;
      const close = async (): Promise<void> => {
        running.open -= 1;
        await Promise.resolve();
      };
      return Promise.resolve({
        command: ["enter"],
        env: { INSIDE: "yes" },
        directory: "",
        name: "",
        pid: "",
        close,
      });
    },
  });
  return { counts, running, runs: runs.sort((a, b) => a.file.localeCompare(b.file)), root: directory.path };
}

test("runQueues() runs each file once, in namespaces where it has an engine of its own", async () => {
  const { counts, runs, running } = await schedule();
  assert.equal(counts.passed, 5);
  const rows = runs.map(({ file, command, variable }) => [file, command, variable]);
  assert.deepEqual(rows, [
    ["a.test.ts", ["enter"], "yes"],
    ["b.test.ts", [], undefined],
    ["c.test.ts", ["enter"], "yes"],
    ["d.test.ts", [], undefined],
    ["e.test.ts", ["enter"], "yes"],
  ]);
  assert.deepEqual(
    running,
    { shared: 0, most: 1, open: 0, processes: 3 },
    "files of the shared engine run one after another; files of one kind share processes",
  );
});

const withMovable = { ...texts, ...movable };

test("runQueues() has engines of their own take over what may move, when their files have ended", async () => {
  const { counts, runs } = await schedule(undefined, { files: withMovable, mayMove: true });
  assert.equal(counts.passed, 6);
  const moved = runs.find(({ file }) => file === "lifecycle.test.ts");
  assert.deepEqual([moved?.command, moved?.variable], [["enter"], "yes"]);
  assert.match(
    moved?.runnerFlags.join(" ") ?? "",
    /^--import=file:\S+\/test\/support\/start-own-engine\.ts$/,
  );
  const commands = runs.filter(({ file }) => /^[bd]/.test(file)).map(({ command }) => command);
  assert.deepEqual(commands, [[], []]);
});

for (const [when, mayMove, passed] of [
  ["the engine was named", false, 1],
  ["no own engine has worked", true, 0],
] as const)
  test(`runQueues() moves nothing when ${when}`, async () => {
    const outcome = (file: string): Partial<typeof noCounts> =>
      /^[ae]/.test(file) ? { skipped: 1, passed } : { passed: 1 };
    const { runs } = await schedule(outcome, { files: withMovable, mayMove });
    assert.deepEqual(runs.find(({ file }) => file === "lifecycle.test.ts")?.command, []);
  });
