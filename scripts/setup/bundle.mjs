/**
 * Puts the program and the npm packages that it uses into a few files. A start then reads a dozen files in place of six hundred, and
 * the text in memory is without comments and without modules that nothing uses: see docs/run/performance.md.
 */
import { build, stop } from "esbuild";
import {
  readFileSync,
  readdirSync,
  writeFileSync,
  existsSync,
  mkdtempSync,
  renameSync,
  rmSync,
} from "node:fs";
import { join } from "node:path";
import { tmpdir } from "node:os";
import { run, tail } from "./run.mjs";

/** A stack trace names lines: so they are short, although nobody reads them. */
const LINE_CHARACTERS = 160;

/**
 * docker-modem loads ssh2 for ssh:// endpoints, to which the program has its own way. It is the third part of all text, and cannot
 * be loaded without its own files beside it. dockerode loads what builds of images need, with files beside them, too. grpc-js loads
 * proto-loader for services of its own (channelz, ORCA) that the program does not have.
 * @type {import("esbuild").Plugin}
 */
const withoutUnusedParts = {
  name: "without-unused-parts",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^(ssh2|@grpc\/proto-loader)$/ }, ({ path }) => ({ path, namespace: "left-out" }));
    onResolve({ filter: /^\.\/(buildkit|session)$/ }, ({ path, importer }) =>
      /\/dockerode\/lib\/docker\.js$/.test(importer) ? { path, namespace: "left-out" } : undefined,
    );
    onLoad({ filter: /.*/, namespace: "left-out" }, () => ({ contents: "module.exports = {};" }));
  },
};

/**
 * Throws with all that is wrong with the sources. Types are not looked at.
 * @param {{ root: string, target: string, log?: (line: string) => void }} options
 */
export async function bundle({ root, target, log = () => undefined }) {
  try {
    await write(root, target, log);
  } finally {
    // Else its process lives as long as this one, which goes on as the shim.
    await stop();
  }
}

/**
 * What bundles of the program have in common.
 * @param {string} root
 * @returns {import("esbuild").BuildOptions}
 */
export function bundleOptions(root) {
  return {
    absWorkingDir: root,
    bundle: true,
    platform: "node",
    // Of packages as ES modules only what is used goes into the bundle: of OpenTelemetry's text a third.
    mainFields: ["module", "main"],
    target: "node20.9",
    sourcemap: true,
    sourcesContent: false,
    // Their licenses stand in LICENSES.txt.
    legalComments: "none",
    minifyWhitespace: true,
    minifySyntax: true,
    lineLimit: LINE_CHARACTERS,
    logLevel: "silent",
    plugins: [withoutUnusedParts],
    tsconfig: join(root, "tsconfig.json"),
  };
}

/** Parts of Node.js that most runs of `play` do not use, and that take a millisecond to load. */
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
 * Those of the program alone, for a file that Node.js runs as a script.
 * @param {string} root
 * @returns {import("esbuild").BuildOptions}
 */
export function programOptions(root) {
  return {
    ...bundleOptions(root),
    format: "cjs",
    // launch.ts runs it as a script, which cannot import. What is not bundled belongs to Node.js.
    supported: { "dynamic-import": false },
    define: { "import.meta.url": "moduleUrl" },
    banner: { js: 'const moduleUrl=require("node:url").pathToFileURL(__filename).href;' },
  };
}

/** @param {string} root @param {string} target @param {(line: string) => void} log */
async function write(root, target, log) {
  const common = { ...bundleOptions(root), metafile: true };
  const launcher = await build({
    ...common,
    format: "cjs",
    entryPoints: ["src/main/launch.ts"],
    outfile: join(target, "launch.cjs"),
    define: { "import.meta.dirname": "__dirname" },
  });
  // What the set-up imports.
  const archive = await build({
    ...common,
    format: "esm",
    entryPoints: ["src/shim/pause/image-archive.ts"],
    outfile: join(target, "image-archive.js"),
    banner: {
      js: 'import{createRequire as bannerRequire}from"node:module";const require=bannerRequire(import.meta.url);',
    },
  });
  const program = { ...common, ...programOptions(root) };
  const all = await build({
    ...program,
    entryPoints: ["src/main/run.ts"],
    outfile: join(target, "dockershim.cjs"),
  });
  const quick = await build({
    ...program,
    entryPoints: ["src/main/quick.ts"],
    outfile: join(target, "quick.cjs"),
    // Less text to read.
    minifyIdentifiers: true,
    plugins: [...(common.plugins ?? []), lateBuiltins],
  });
  await writeCaches({ root, target, common, log });
  const inputs = [launcher, archive, all, quick].flatMap(({ metafile }) => Object.keys(metafile.inputs));
  writeFileSync(join(target, "LICENSES.txt"), licensesOf({ root, inputs }));
}

/** Up to the name of the innermost package. */
const packageDirectory = /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/;
const licenseFile = /^(?:licen[cs]e|copying|notice)/i;

/**
 * The licenses of npm packages whose code is in the bundle: most of them want their text to go with every copy. One text for all
 * packages that one of `inputs` belongs to, in the order of their directories.
 * @param {{ root: string, inputs: Iterable<string> }} options `inputs`: files, relative to `root`
 */
export function licensesOf({ root, inputs }) {
  /** @type {Set<string>} */
  const directories = new Set();
  for (const input of inputs) {
    const [directory] = packageDirectory.exec(input) ?? [];
    if (directory !== undefined) directories.add(directory);
  }
  return [...directories]
    .sort()
    .map((directory) => licenseOf(join(root, directory)))
    .join("\n");
}

/**
 * A package without such a file names its license in its package.json.
 * @param {string} directory
 */
function licenseOf(directory) {
  const text = readFileSync(join(directory, "package.json"), "utf8");
  const { name, version, license } = /** @type {Record<string, unknown>} */ (JSON.parse(text));
  const files = readdirSync(directory)
    .filter((file) => licenseFile.test(file))
    .sort()
    .map((file) => `\n${readFileSync(join(directory, file), "utf8").trim()}\n`);
  return `==== ${String(name)} ${String(version)}, ${String(license)}\n${files.join("")}`;
}

/** Writes V8's code caches for the programs of dist, for the Node.js that builds. Without them they start more slowly. */
const TRAINING_TIMEOUT_MS = 60_000;

/** @param {{ root: string, target: string, common: import("esbuild").BuildOptions, log: (line: string) => void }} options */
async function writeCaches({ root, target, common, log }) {
  const directory = mkdtempSync(join(tmpdir(), "dockershim-build-"));
  try {
    const entryPoints = ["src/main/cached-program.ts", "src/client/cri-messages.ts"];
    await build({
      ...common,
      format: "cjs",
      entryPoints,
      outdir: directory,
      outExtension: { ".js": ".cjs" },
      outbase: "src",
    });
    // A server serves on Linux alone.
    const names = process.platform === "linux" ? ["quick", "dockershim"] : ["quick"];
    for (const name of names)
      await train({
        root,
        path: join(target, name),
        parts: directory,
        directory: join(directory, name),
      }).catch((/** @type {Error} */ error) => {
        log(`${name}.cjs will start more slowly: ${error.message}`);
      });
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** @param {{ root: string, path: string, parts: string, directory: string }} input */
async function train({ root, path, parts, directory }) {
  const training = join(root, "scripts", "setup", "code-cache-training.mjs");
  const written = `${path}.cache.next`;
  const argv = [training, parts, path, written, directory];
  // Options of V8 would be part of the cache.
  const env = { ...process.env, NODE_OPTIONS: "" };
  const { code, output } = await run(process.execPath, argv, { env, timeoutMs: TRAINING_TIMEOUT_MS });
  if (code !== 0) throw new Error(`make the code cache of ${path}.cjs: ${tail(output)}`);
  if (existsSync(written)) renameSync(written, `${path}.cache`);
}
