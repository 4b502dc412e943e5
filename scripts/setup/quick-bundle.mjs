/**
 * Writes what launch.ts starts: the program of the commands `play` and `pod` as one file, with V8's code cache for the Node.js that
 * builds. These commands are short, so that their start is most of what they add to the calls of the CRI: see docs/run/performance.md.
 */
import { build } from "esbuild";
import { existsSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run, tail } from "./run.mjs";

const TRAINING_TIMEOUT_MS = 60_000;

/** @type {import("esbuild").Plugin} */
const mainFromChunks = {
  name: "main-from-chunks",
  setup({ onResolve }) {
    onResolve({ filter: /^\.\/main\.js$/ }, () => ({ path: "./dockershim.js", external: true }));
  },
};

/** Parts of Node.js that most runs do not use, and that take a millisecond to load. */
const LATE_BUILTINS = ["child_process", "dgram", "dns"];

/**
 * Loads them when the first of their members is read.
 * @type {import("esbuild").Plugin}
 */
const lateBuiltins = {
  name: "late-builtins",
  setup({ onResolve, onLoad }) {
    const filter = new RegExp(`^(node:)?(${LATE_BUILTINS.join("|")})$`);
    onResolve({ filter }, ({ path, namespace }) =>
      namespace === "late"
        ? { path, external: true }
        : { path: path.replace(/^node:/, ""), namespace: "late" },
    );
    onLoad({ filter: /.*/, namespace: "late" }, async ({ path }) => {
      const names = Object.keys(await import(path)).filter((name) => name !== "default");
      const members = names.map((name) => `get ${name}() { return require("node:${path}").${name}; }`);
      return { contents: `module.exports = { ${members.join(", ")} };` };
    });
  },
};

/**
 * @param {{ root: string, target: string, common: import("esbuild").BuildOptions, log: (line: string) => void }} options
 * @returns {Promise<string[]>} the files that were put together, relative to `root`
 */
export async function writeQuickBundle({ root, target, common, log }) {
  /** @type {import("esbuild").BuildOptions} */
  const options = { ...common, format: "cjs", metafile: true };
  const launcher = await build({
    ...options,
    entryPoints: ["src/main/launch.ts"],
    outfile: join(target, "launch.cjs"),
    define: { "import.meta.dirname": "__dirname" },
    plugins: [mainFromChunks],
  });
  const quick = await build({
    ...options,
    entryPoints: ["src/main/quick.ts"],
    outfile: join(target, "quick.cjs"),
    // A script cannot import. What is not bundled belongs to Node.js.
    supported: { "dynamic-import": false },
    // Less text to read. With --enable-source-maps the chunks run, whose stack traces name the sources.
    minifyIdentifiers: true,
    define: { "import.meta.url": "moduleUrl" },
    // What a module of CommonJS has, because it runs as a script.
    banner: {
      js: '(function(require,__filename){const module={},moduleUrl=require("node:url").pathToFileURL(__filename).href;',
    },
    footer: { js: "return module.exports})" },
    plugins: [...(common.plugins ?? []), lateBuiltins],
  });
  try {
    await writeCache({ root, target, options });
  } catch (error) {
    log(`play and pod will start more slowly: ${error instanceof Error ? error.message : String(error)}`);
  }
  return [launcher, quick].flatMap(({ metafile }) => Object.keys(metafile.inputs));
}

/** @param {{ root: string, target: string, options: import("esbuild").BuildOptions }} input */
async function writeCache({ root, target, options }) {
  const directory = mkdtempSync(join(tmpdir(), "dockershim-build-"));
  try {
    const [quickStart, messages] = ["quick-start.cjs", "cri-messages.cjs"].map((name) =>
      join(directory, name),
    );
    await build({ ...options, entryPoints: ["src/main/quick-start.ts"], outfile: quickStart });
    await build({ ...options, entryPoints: ["src/client/cri-messages.ts"], outfile: messages });
    const written = join(target, "quick.cache.next");
    const training = join(root, "scripts", "setup", "quick-training.mjs");
    const argv = [training, quickStart, messages, join(target, "quick.cjs"), written, directory];
    // Options of V8 would be part of the cache.
    const env = { ...process.env, NODE_OPTIONS: "" };
    const { code, output } = await run(process.execPath, argv, { env, timeoutMs: TRAINING_TIMEOUT_MS });
    if (code !== 0) throw new Error(`make the code cache of play: ${tail(output)}`);
    if (existsSync(written)) renameSync(written, join(target, "quick.cache"));
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
