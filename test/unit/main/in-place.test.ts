/** Invocations of cri-dockerd by installers, guides and tests of others, with this program in its place. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { copyFile, mkdir, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import { promisify } from "node:util";
import { parse } from "yaml";
import { repositoryRoot } from "../../../scripts/setup/paths.mjs";
import { calledName } from "../../../src/main/own-process.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { actionCode, run } from "./command-line.js";

interface Invocation {
  readonly line: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly config?: Readonly<Record<string, unknown>>;
  readonly warnings?: readonly string[];
  readonly out?: string;
  readonly err?: string;
}

const text = readFileSync("test/golden/cri-dockerd-invocations.yaml", "utf8")
  .replaceAll("VERSION", "0.4.3 (dockershim 1.2.3, abc)")
  .replaceAll("NODE", process.version);
const invocations = parse(text, { merge: true }) as Readonly<Record<string, Invocation>>;

describe("invocations of cri-dockerd", () => {
  for (const [who, expected] of Object.entries(invocations)) {
    test(`${who}: ${expected.line.slice(0, 80)}`, async () => {
      const [argv0 = "", ...argv] = expected.line.split(" ");
      const { out, err, environment = {} } = expected;
      const found = await run([...calledName(argv0), ...argv], { environment });
      const exitCode = err !== undefined ? 1 : out !== undefined ? 0 : actionCode;
      assert.deepEqual([found.exitCode, found.out, found.err], [exitCode, out ?? "", err ?? ""]);
      const { config = {}, warnings = [] } = found.acted.runServe ?? {};
      for (const [name, value] of Object.entries(expected.config ?? {}))
        assert.deepEqual((config as Record<string, unknown>)[name], value, name);
      const begins = expected.warnings ?? [];
      const cut = warnings.map((warning, index) => warning.slice(0, begins[index]?.length));
      assert.deepEqual(cut, begins);
    });
  }

  test("the help shows the defaults of the name", async () => {
    assert.match(
      (await run("cri-dockerd --help")).out,
      /\(default:\s+unix:\/\/\/var\/run\/cri-dockerd\.sock\)/,
    );
    assert.match((await run("--help")).out, /\(default:\s+unix:\/\/\/var\/run\/dockershim\.sock\)/);
  });
});

describe("bin/dockershim", () => {
  /** Prints its arguments. */
  const program = "console.log(process.argv.slice(2).join())\n";

  test("says the name that a link to it has, and what to do where it was copied alone", async () => {
    await using at = await temporaryDirectory();
    const launcher = join(at.path, "opt", "bin", "dockershim");
    const copy = join(at.path, "usr", "bin", "cri-dockerd");
    for (const path of [launcher, copy]) {
      await mkdir(dirname(path), { recursive: true });
      await copyFile(join(repositoryRoot, "bin", "dockershim"), path);
    }
    await mkdir(join(at.path, "opt", "dist"));
    await writeFile(join(at.path, "opt", "dist", "launch.cjs"), program);
    for (const [name, expected] of [
      ["cri-dockerd", "cri-dockerd,--version\n"],
      ["docker-pod", "docker-cli-plugin,--version\n"],
      ["shim", "--version\n"],
    ] as const) {
      const link = join(at.path, name);
      await symlink(launcher, link);
      assert.equal((await promisify(execFile)(link, ["--version"])).stdout, expected, name);
    }
    const line = `dockershim: "${copy}" is a copy of bin/dockershim alone: make it a link to that file, or copy the executable of a release\n`;
    await assert.rejects(promisify(execFile)(copy, ["--version"]), { code: 1, stdout: "", stderr: line });
  });
});
