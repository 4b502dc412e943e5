import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { repositoryRoot } from "../../../scripts/setup/paths.mjs";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const setup = new URL("../../../scripts/setup/", import.meta.url).href;

const start = (...args: readonly string[]) => spawn(process.execPath, args, { cwd: repositoryRoot });

async function endOf(child: ReturnType<typeof start>): Promise<{ code: unknown; errors: string }> {
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
  const [code] = (await once(child, "close")) as unknown[];
  return { code, errors };
}

/** Runs a module whose output is read up to its first bytes. */
function readLittle(module: string): ReturnType<typeof endOf> {
  const child = start("--input-type=module", "--eval", module);
  child.stdout.once("data", () => child.stdout.destroy());
  return endOf(child);
}

describe("endWithoutReader()", () => {
  test("ends a program whose output nobody reads, with the code of SIGPIPE and no other word", async () => {
    const outcome = await readLittle(`
      import { endWithoutReader } from "${setup}lost-output.mjs";
      endWithoutReader(process.stdout);
      setInterval(() => process.stdout.write("more\\n"), 5);
    `);
    assert.deepEqual(outcome, { code: 141, errors: "" });
  });

  test("lets running tests clean up first", async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, "talkative.test.mjs");
    const cleaned = join(directory.path, "cleaned");
    await writeFile(
      file,
      `import { writeFileSync } from "node:fs";
      import { test } from "node:test";
      process.once("SIGTERM", () => {
        writeFileSync(${JSON.stringify(cleaned)}, "");
        process.exit();
      });
      test("goes on and on", () => new Promise(() => setInterval(() => console.log("more"), 5)));`,
    );
    const outcome = await readLittle(`
      import { endWithoutReader } from "${setup}lost-output.mjs";
      import { runTests } from "${setup}test-runner.mjs";
      endWithoutReader(process.stdout);
      // Else node's runner takes itself for a part of the run that this test belongs to.
      const { NODE_TEST_CONTEXT, ...env } = process.env;
      const limits = { concurrency: undefined, timeoutMs: 60_000 };
      const options = { root: process.cwd(), files: [${JSON.stringify(file)}], env, runnerFlags: [], ...limits };
      try {
        await runTests(options);
      } catch (error) {
        process.stdout.write(error.message);
        process.exitCode = error.exitCode;
      }
    `);
    assert.deepEqual(outcome, { code: 141, errors: "" });
    assert.ok(existsSync(cleaned));
  });

  test("is what npm test does", async () => {
    const child = start("scripts/test.mjs", "--help");
    child.stdout.destroy();
    assert.deepEqual(await endOf(child), { code: 141, errors: "" });
  });
});
