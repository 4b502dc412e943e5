/** The program as one executable file: Node.js, the program as one module with V8's code cache, and the files that it carries. */
import { build, stop } from "esbuild";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { appendFileSync, chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { bundleOptions, licensesOf } from "../setup/bundle.mjs";
import { filesBelow } from "../setup/build.mjs";
import { run, tail } from "../setup/run.mjs";
import { nodeBinary, nodeVersion } from "./node-binary.mjs";
import { manualPage, manualPageFile } from "./tree.mjs";

/** @typedef {import("./node-binary.mjs").Architecture} Architecture */
/** @typedef {{ version: string, commit: string }} Release */

const BUILD_TIMEOUT_MS = 5 * 60_000;

/** @type {Architecture} */
export const thisArchitecture = process.arch === "arm64" ? "arm64" : "amd64";

/**
 * Writes the files that executables of all architectures have in common to `directory`. Answers the files of npm packages that
 * are part of the program.
 * @param {{ root: string, directory: string, release: Release, log: (line: string) => void }} options
 */
export async function writeParts({ root, directory, release, log }) {
  mkdirSync(directory, { recursive: true });
  const { metafile } = await build({
    ...bundleOptions(root),
    target: `node${nodeVersion}`,
    sourcemap: false,
    entryPoints: ["src/main/main.ts"],
    outfile: join(directory, "main.mjs"),
    format: "esm",
    // Only Node.js' own modules are left to require. `import.meta.url` is no URL where /proc is not mounted.
    banner: {
      js: 'import{createRequire as bannerRequire}from"node:module";const require=bannerRequire("/");',
    },
    metafile: true,
  }).finally(stop);
  const inputs = Object.keys(metafile.inputs);
  const { program, license } = await nodeBinary(thisArchitecture, log);
  const licenses = `${licensesOf({ root, inputs })}\n==== Node.js ${nodeVersion}\n\n${readFileSync(license, "utf8").trim()}\n`;
  writeFileSync(join(directory, "LICENSES.txt"), licenses);
  writeFileSync(join(directory, "package.json"), `${JSON.stringify({ name: "dockershim", ...release })}\n`);
  const main = join(directory, "main.mjs");
  const page = manualPage((...args) => execFileSync(program, [main, ...args], { env: {}, maxBuffer: 1e7 }));
  writeFileSync(join(directory, manualPageFile), page);
  return inputs;
}

/**
 * The process.versions of the Node.js that is inside.
 * @param {(line: string) => void} log
 * @returns {Promise<NodeJS.Dict<string>>}
 */
export async function nodeVersions(log) {
  const { program } = await nodeBinary(thisArchitecture, log);
  const { code, output } = await run(program, ["-p", "JSON.stringify(process.versions)"], {
    timeoutMs: 60_000,
  });
  if (code !== 0) throw new Error(`run Node.js ${nodeVersion}:\n${tail(output)}`);
  return JSON.parse(output);
}

/**
 * Writes the executable for `architecture` from the parts in `directory`.
 *
 * V8's code cache is bound to the processor: an executable for another one than this machine's has none.
 * @param {{ root: string, directory: string, architecture: Architecture, output: string, log: (line: string) => void }} options
 */
export async function writeExecutable({ root, directory, architecture, output, log }) {
  const { program: builder } = await nodeBinary(thisArchitecture, log);
  const { program: executable } = await nodeBinary(architecture, log);
  const natives = filesBelow(root, join("native", "bin")).filter((path) => /-(amd64|arm64)$/.test(path));
  const units = filesBelow(root, "packaging").filter((path) => /\.(service|socket)$/.test(path));
  const config = join(directory, `sea-${architecture}.json`);
  const settings = {
    // Node.js stores the path in the executable: an absolute one would differ from build to build.
    main: "main.mjs",
    mainFormat: "module",
    executable,
    output,
    disableExperimentalSEAWarning: true,
    useCodeCache: architecture === thisArchitecture,
    // NODE_OPTIONS of the node's other programs are not meant for this one.
    execArgvExtension: "none",
    assets: {
      "package.json": join(directory, "package.json"),
      "LICENSES.txt": join(directory, "LICENSES.txt"),
      // `dockershim install` writes these.
      [manualPageFile]: join(directory, manualPageFile),
      ...Object.fromEntries([...natives, ...units].map((path) => [path, join(root, path)])),
    },
  };
  writeFileSync(config, JSON.stringify(settings));
  rmSync(output, { force: true });
  const env = { ...process.env, NODE_OPTIONS: "" };
  // V8 draws numbers for its code cache, too.
  const args = ["--random-seed=1", `--build-sea=${config}`];
  const result = await run(builder, args, { cwd: directory, env, timeoutMs: BUILD_TIMEOUT_MS });
  if (result.code !== 0) throw new Error(`make the executable for ${architecture}:\n${tail(result.output)}`);
  appendFileSync(output, trailerOf(readFileSync(output)));
  chmodSync(output, 0o755);
}

/**
 * What `dockershim version --verify` compares with the bytes before it: src/main/verify.ts.
 * @param {Buffer} content
 */
function trailerOf(content) {
  return `\ndockershim-sha256:${createHash("sha256").update(content).digest("hex")}\n`;
}
