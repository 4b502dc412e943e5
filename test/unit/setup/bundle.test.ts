import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdtemp, readFile, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { engineEnvironment } from "../../../scripts/setup/ensure-engine.mjs";
import { repositoryRoot } from "../../../scripts/setup/paths.mjs";
import { modulePath, moduleWords } from "../../support/program-words.js";

const run = promisify(execFile);

/** Bundles in a program of its own, and prints how many processes it leaves; tsx has some, too. */
const program = `
  import { readFileSync } from "node:fs";
  import { setTimeout as sleep } from "node:timers/promises";
  import { bundle } from ${JSON.stringify(new URL("../../../scripts/setup/bundle.mjs", import.meta.url).href)};
  await bundle({ root: process.cwd(), target: process.argv[1] });
  const children = () => readFileSync("/proc/self/task/" + process.pid + "/children", "utf8").trim();
  for (let look = 0; look < 500 && children() !== ""; look += 1) await sleep(10);
  process.stdout.write(children());
`;

const cacheCheck = `
  import { readProgram } from ${JSON.stringify(modulePath("src/main/cached-program.ts"))};
  const [directory, name] = process.argv.slice(1);
  process.stderr.write("rejected: " + readProgram(directory + "/dist/" + name).script.cachedDataRejected);
`;

describe("bundle()", () => {
  /** An installation: far from any node_modules. */
  let root = "";
  let processesLeft = "";
  before(async () => {
    root = await mkdtemp(join(tmpdir(), "dockershim-bundle-"));
    for (const part of ["bin", "native", "package.json"])
      await cp(join(repositoryRoot, part), join(root, part), { recursive: true });
    const argv = ["--input-type=module", "--eval", program, join(root, "dist")];
    processesLeft = (await run(process.execPath, argv, { cwd: repositoryRoot })).stdout;
  });
  after(() => rm(root, { recursive: true, force: true }));

  const dockershim = async (...argv: readonly string[]): Promise<string> =>
    (await run(join(root, "bin", "dockershim"), argv, { cwd: "/" })).stdout;

  test("leaves no process behind: npm start goes on as the shim", () => assert.equal(processesLeft, ""));

  test("finds the names of a CommonJS package that is imported late", async () => {
    assert.match(await dockershim("config", "--output", "yaml"), /^state-dir: /m);
  });

  for (const name of ["quick", "dockershim"]) {
    test(`makes ${name}.cjs of ASCII alone, as which it is read`, async () => {
      const text = await readFile(join(root, "dist", `${name}.cjs`), "latin1");
      assert.deepEqual(text.match(/[^\0-\x7f]+.{0,80}/g), null);
    });

    test(`starts ${name}.cjs with a code cache that V8 takes`, async () => {
      const [node, ...words] = moduleWords("--input-type=module", "--eval", cacheCheck, root, name);
      const { stderr } = await run(node, words, { cwd: repositoryRoot });
      assert.equal(stderr, "rejected: false");
    });
  }

  for (const [missing, ...argv] of [
    ["quick.cjs", "pod", "ps"],
    ["dockershim.cjs", "play", "--supervise"],
    ["dockershim.cjs", "config"],
  ] as const)
    test(`says in one line that ${missing} is missing for ${argv.join(" ")}`, async () => {
      const path = join(root, "dist", missing);
      await rename(path, `${path}.away`);
      try {
        const result = (await run(join(root, "bin", "dockershim"), argv).catch(
          (error: unknown) => error,
        )) as {
          readonly code: number;
          readonly stderr: string;
        };
        assert.match(result.stderr, /^dockershim: the installation is damaged, install it again: .*\n$/);
        assert.ok(result.stderr.includes(path), result.stderr);
        assert.equal(result.code, 1);
      } finally {
        await rename(`${path}.away`, path);
      }
    });

  test("loads parts of Node.js late that few runs of play need", async () => {
    const print = 'process.on("exit", () => console.log(process.moduleLoadList.join()));';
    const argv = ["play", "--endpoint", "unix:///missing.sock", join(root, "package.json")];
    const file = join(root, "dist", "launch.cjs");
    const preload = `data:text/javascript,${encodeURIComponent(print)}`;
    const { stdout } = (await run(process.execPath, ["--import", preload, file, ...argv]).catch(
      (error: unknown) => error,
    )) as { readonly stdout: string };
    const loaded = stdout.trim().split(",");
    assert.ok(loaded.includes("NativeModule http2"), stdout);
    for (const name of ["child_process", "dgram", "dns"])
      assert.ok(!loaded.includes(`NativeModule ${name}`), name);
  });

  for (const argv of [["config"], ["play", "--help"]])
    test(`names the sources in stack traces of ${argv.join(" ")} with --enable-source-maps`, async () => {
      const trace = "process.stdout.write = () => { console.error(new Error().stack); return true; };";
      const preload = `data:text/javascript,${encodeURIComponent(trace)}`;
      const flags = ["--enable-source-maps", "--import", preload, join(root, "dist", "launch.cjs")];
      const { stderr } = await run(process.execPath, [...flags, ...argv]);
      assert.match(stderr, /\/src\/[\w/-]+\.ts:\d+/);
    });

  test("has the licenses of the packages that it contains, and of no others", async () => {
    const licenses = await readFile(join(root, "dist", "LICENSES.txt"), "utf8");
    const names = [...licenses.matchAll(/^==== (\S+) \d/gm)].map(([, name]) => name);
    for (const name of ["@grpc/grpc-js", "commander", "pino", "prom-client", "yaml"])
      assert.ok(names.includes(name), name);
    for (const name of ["ssh2", "esbuild", "typescript"]) assert.ok(!names.includes(name), name);
    assert.match(licenses, /^==== ws .*\n\n.*Copyright/m);
    assert.match(licenses, /Permission is hereby granted/);
  });
});

describe("the ways to start the program", () => {
  test("give glibc the same settings", async () => {
    const launcher = await readFile(join(repositoryRoot, "bin", "dockershim"), "utf8");
    const manifest = await readFile(join(repositoryRoot, "package.json"), "utf8");
    const { scripts } = JSON.parse(manifest) as { scripts: { start: string } };
    const settings = [...launcher.matchAll(/(MALLOC_\w+)="\$\{\1:-(\d+)\}"/g)];
    assert.equal(settings.length, 2);
    for (const [, name = "", value = ""] of settings) {
      assert.ok(scripts.start.includes(` ${name}=\${${name}:-${value}} `), `${name} of npm start`);
      // They are for this program alone.
      assert.deepEqual(Object.keys(engineEnvironment({ [name]: value })), ["PATH"]);
    }
  });
});
