/** `dockershim pod`, the program, with a pod of play against a shim with a real engine. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { repositoryRoot } from "../../scripts/setup/paths.mjs";
import { runProgram, type Exit, type ShimProcess } from "../support/shim-process.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

describe("pod", { skip: await reasonToSkip() }, () => {
  let bed: TestBed;
  let shim: ShimProcess;
  let name = "";
  let manifest = "";
  before(async () => {
    bed = await TestBed.open();
    shim = await bed.startShim();
    name = `commands-${bed.run}`;
    manifest = join(await bed.newDirectory(), "pod.yaml");
    const script =
      "echo one; echo two; mkdir -p /www; echo page > /www/index.html; httpd -p 8080 -h /www; cat";
    await writeFile(
      manifest,
      `
apiVersion: v1
kind: Pod
metadata: {name: ${name}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: web, image: "${bed.image}", stdin: true, command: [sh, -c, "${script}"]}
`,
    );
    const up = await runProgram(["play", "--wait", `--endpoint=${shim.endpoint}`, manifest]);
    assert.equal(up.code, 0, up.stderr);
  });
  after(async () => {
    try {
      await runProgram(["play", `--endpoint=${shim.endpoint}`, "--down", manifest]);
    } finally {
      await bed.close();
    }
  });

  const pod = (verb: string, ...argv: readonly string[]): Promise<Exit> =>
    runProgram(["pod", verb, `--endpoint=${shim.endpoint}`, ...argv]);

  test("ps, describe, events and top show it", async () => {
    const listed = await pod("ps", "-o", "json");
    const { pods } = JSON.parse(listed.stdout) as { pods: readonly Record<string, unknown>[] };
    const own = pods.find((each) => each["name"] === name);
    assert.deepEqual([own?.["phase"], own?.["readyContainers"], own?.["madeBy"]], ["Running", 1, "play"]);
    assert.match((await pod("ps")).stdout, new RegExp(`default +${name} +1/1 +Running +0 `));
    assert.match((await pod("describe", name)).stdout, /State: +running/);
    assert.match((await pod("events", name)).stdout, /container web \(attempt 0\) started/);
    assert.match((await pod("top", name, "--containers")).stdout, /web +\d+m +\d+Mi/);
  });

  test("logs prints the lines of its container", async () => {
    await until("both lines", async () => (await pod("logs", name)).stdout === "one\ntwo\n");
    assert.equal((await pod("logs", name, "--tail=1", "--prefix")).stdout, `[pod/${name}/web] two\n`);
    const missing = await pod("logs", name, "-c", "none");
    assert.equal(missing.code, 1);
    assert.match(missing.stderr, /no container "none"; it has: web/);
  });

  test("exec returns the exit code, and passes standard input with its end", async () => {
    const failed = await pod("exec", name, "--", "sh", "-c", "echo out; echo err >&2; exit 7");
    assert.deepEqual([failed.code, failed.stdout, failed.stderr], [7, "out\n", "err\n"]);
    const program = [join(repositoryRoot, "src/main/main.ts"), "pod", "exec", `--endpoint=${shim.endpoint}`];
    const child = spawn(process.execPath, ["--import", "tsx", ...program, "-i", name, "--", "wc", "-c"]);
    child.stdin.end("12345");
    let out = "";
    child.stdout.on("data", (chunk: Buffer) => (out += chunk.toString()));
    await new Promise((resolve) => child.once("close", resolve));
    assert.equal(out.trim(), "5");
  });

  test("exec with a terminal", async () => {
    const program = `${process.execPath} --import tsx src/main/main.ts pod exec --endpoint=${shim.endpoint} -it`;
    const command = `${program} ${name} -- sh -c "tty; sleep 1; stty size"`;
    const shell = `stty rows 33 columns 99; ${command}; stty -a`;
    const { stdout } = await promisify(execFile)("script", ["-qec", shell, "/dev/null"], {
      cwd: repositoryRoot,
    });
    assert.match(stdout, /\/dev\/pts\/0\s+33 99\s/);
    // The terminal is as before.
    assert.match(stdout, / icanon/);
  });

  test("cp copies both ways", async () => {
    const directory = await bed.newDirectory();
    await mkdir(join(directory, "tree"));
    await writeFile(join(directory, "tree", "a"), "a".repeat(200_000));
    const to = await pod("cp", join(directory, "tree"), `${name}:/tmp/copied`);
    assert.equal(to.code, 0, to.stderr);
    const from = await pod("cp", `${name}:/tmp/copied`, join(directory, "back"));
    assert.equal(from.code, 0, from.stderr);
    assert.equal((await readFile(join(directory, "back", "a"), "utf8")).length, 200_000);
    const missing = await pod("cp", `${name}:/no/such`, join(directory, "none"));
    assert.equal(missing.code, 1);
  });

  test("port-forward reaches its port until it is interrupted", async () => {
    const program = [
      "--import",
      "tsx",
      "src/main/main.ts",
      "pod",
      "port-forward",
      `--endpoint=${shim.endpoint}`,
    ];
    const child = spawn(process.execPath, [...program, name, ":8080"], { cwd: repositoryRoot });
    let said = "";
    child.stderr.on("data", (chunk: Buffer) => (said += chunk.toString()));
    const port = await until("the port", () => /127\.0\.0\.1:(\d+)/.exec(said)?.[1]);
    const page = await until("the page", () =>
      fetch(`http://127.0.0.1:${port}/`).then(
        (answer) => answer.text(),
        () => undefined,
      ),
    );
    assert.equal(page, "page\n");
    child.kill("SIGINT");
    await new Promise((resolve) => child.once("close", resolve));
  });

  test("down removes it, and no pod of another client", async () => {
    await using other = await bed.runPod(shim.cri);
    const { namespace, name: otherName } = other.config.metadata ?? {};
    const refused = await pod("down", `${namespace}/${otherName}`);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /play did not make it/);
    const down = await pod("down", name);
    assert.equal(down.code, 0, down.stderr);
    assert.match((await pod("describe", name)).stderr, /not found/);
  });
});
