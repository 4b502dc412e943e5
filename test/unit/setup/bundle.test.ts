import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdtemp, readdir, readFile, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { engineEnvironment } from "../../../scripts/setup/ensure-engine.mjs";
import { repositoryRoot } from "../../../scripts/setup/paths.mjs";

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
  import { readProgram } from ${JSON.stringify(new URL("../../../src/main/quick-start.ts", import.meta.url).href)};
  const [file, cache] = ["quick.cjs", "quick.cache"].map((name) => process.argv[1] + "/dist/" + name);
  process.stderr.write("rejected: " + readProgram(file, cache).script.cachedDataRejected + "\\n");
`;

describe("bundle()", () => {
  /** An installation: far from any node_modules. */
  let root = "";
  let processesLeft = "";
  before(async () => {
    root = await mkdtemp(join(tmpdir(), "dockershim-bundle-"));
    const argv = ["--input-type=module", "--eval", program, join(root, "dist")];
    processesLeft = (await run(process.execPath, argv, { cwd: repositoryRoot })).stdout;
    for (const part of ["bin", "native", "package.json"]) {
      await cp(join(repositoryRoot, part), join(root, part), { recursive: true });
    }
  });
  after(() => rm(root, { recursive: true, force: true }));

  const dockershim = async (...argv: readonly string[]): Promise<string> =>
    (await run(join(root, "bin", "dockershim"), argv, { cwd: "/" })).stdout;

  test("leaves no process behind: npm start goes on as the shim", () => {
    assert.equal(processesLeft, "");
  });

  test("finds the names of a CommonJS package that is imported late", async () => {
    assert.match(await dockershim("config", "--output", "yaml"), /^state-dir: /m);
  });

  test("starts play from one file, whose code cache is used", async () => {
    const { stderr } = await run(
      process.execPath,
      ["--import", "tsx", "--input-type=module", "--eval", cacheCheck, root],
      {
        cwd: repositoryRoot,
      },
    );
    assert.equal(stderr, "rejected: false\n");
  });

  test("plays the same from one file and from the chunks", async () => {
    const outputs = await Promise.all(
      ["launch.cjs", "dockershim.js"].map(async (file) => {
        const argv = [
          join(root, "dist", file),
          "play",
          "--endpoint",
          "unix:///missing.sock",
          "/missing.yaml",
        ];
        const result = (await run(process.execPath, argv).catch((error: unknown) => error)) as {
          readonly code: number;
          readonly stderr: string;
        };
        return `${result.code} ${result.stderr}`;
      }),
    );
    assert.match(outputs[0] ?? "", /^1 dockershim play: read "\/missing.yaml"/);
    assert.equal(outputs[1], outputs[0]);
  });

  for (const [missing, ...argv] of [
    ["quick.cjs", "pod", "ps"],
    ["dockershim.js", "play", "--supervise"],
    ["chunks", "play", "--supervise"],
    ["run", "config"],
  ] as const)
    test(`says in one line that ${missing} is missing for ${argv.join(" ")}`, async () => {
      const path = missing === "run" ? await chunk("run") : join(root, "dist", missing);
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

  test("loads no module that a server does not need", async () => {
    const serve = await textOf(await chunksFrom("serve-command"));
    assert.ok(!serve.includes("src/play/"), "play");
    assert.ok(!serve.includes("node_modules/ssh2/"), "ssh2");
    assert.ok(!serve.includes("node_modules/prom-client/"), "prom-client");
  });

  test("has the licenses of the packages that it contains, and of no others", async () => {
    const licenses = await readFile(join(root, "dist", "LICENSES.txt"), "utf8");
    const names = [...licenses.matchAll(/^==== (\S+) \d/gm)].map(([, name]) => name);
    for (const name of ["@grpc/grpc-js", "commander", "pino", "prom-client", "yaml"]) {
      assert.ok(names.includes(name), name);
    }
    for (const name of ["ssh2", "esbuild", "typescript"]) assert.ok(!names.includes(name), name);
    assert.match(licenses, /^==== ws .*\n\n.*Copyright/m);
    assert.match(licenses, /Permission is hereby granted/);
  });

  async function chunk(name: string): Promise<string> {
    const names = await readdir(join(root, "dist", "chunks"));
    const found = names.find((file) => file.startsWith(`${name}-`) && file.endsWith(".js"));
    return join(root, "dist", "chunks", found ?? name);
  }

  /** The chunk, and all that it imports at the top. */
  async function chunksFrom(name: string): Promise<ReadonlySet<string>> {
    const seen = new Set<string>();
    const visit = async (path: string): Promise<void> => {
      if (seen.has(path)) return;
      seen.add(path);
      const imports = (await readFile(path, "utf8")).matchAll(/from\s*"\.\/(chunk-\w+\.js)"/g);
      for (const [, file = ""] of imports) await visit(join(root, "dist", "chunks", file));
    };
    await visit(await chunk(name));
    assert.ok(seen.size > 1, "the chunk has no imports");
    return seen;
  }

  /** Source files of these chunks, as their source maps name them. */
  async function textOf(chunks: ReadonlySet<string>): Promise<string> {
    const maps = await Promise.all([...chunks].map((path) => readFile(`${path}.map`, "utf8")));
    return maps.flatMap((map) => (JSON.parse(map) as { sources: string[] }).sources).join("\n");
  }
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
