/** The program as one executable file: Node.js, the program as one script with V8's code cache, and the files that it carries. */
import { build, stop } from "esbuild";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { appendFileSync, chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundleOptions, licensesOf, programOptions } from "../setup/bundle.mjs";
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
  const common = { target: `node${nodeVersion}`, sourcemap: false, metafile: true };
  const { metafile } = await build({
    ...programOptions(root),
    ...common,
    entryPoints: ["src/main/run.ts"],
    outfile: join(directory, "dockershim.cjs"),
  });
  await build({
    ...bundleOptions(root),
    ...common,
    format: "cjs",
    entryPoints: ["executable", "cached-program"].map((name) => `src/main/${name}.ts`),
    outdir: join(directory, "parts"),
    outbase: "src",
    outExtension: { ".js": ".cjs" },
  }).finally(stop);
  const inputs = Object.keys(metafile.inputs);
  const { program, license } = await nodeBinary(thisArchitecture, log);
  const licenses = `${licensesOf({ root, inputs })}\n==== Node.js ${nodeVersion}\n\n${readFileSync(license, "utf8").trim()}\n`;
  writeFileSync(join(directory, "LICENSES.txt"), licenses);
  writeFileSync(join(directory, "package.json"), `${JSON.stringify({ name: "dockershim", ...release })}\n`);
  await writeCache(directory, program);
  const main = join(directory, "dockershim.cjs");
  const page = manualPage((...args) => execFileSync(program, [main, ...args], { env: {}, maxBuffer: 1e7 }));
  writeFileSync(join(directory, manualPageFile), page);
  return inputs;
}

/**
 * Another Node.js than `program` makes no use of it, nor does another processor.
 * @param {string} directory
 * @param {string} program
 */
async function writeCache(directory, program) {
  const training = fileURLToPath(new URL("code-cache-training.mjs", import.meta.url));
  // V8 draws numbers for the hashes of strings.
  const args = ["--random-seed=1", training, directory, join(directory, "dockershim.cache")];
  const { code, output } = await run(program, args, { env: {}, timeoutMs: BUILD_TIMEOUT_MS });
  if (code !== 0) throw new Error(`make the code cache of the program:\n${tail(output)}`);
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
    main: "parts/main/executable.cjs",
    executable,
    output,
    disableExperimentalSEAWarning: true,
    // NODE_OPTIONS of the node's other programs are not meant for this one.
    execArgvExtension: "none",
    assets: {
      "dockershim.cjs": join(directory, "dockershim.cjs"),
      ...(architecture === thisArchitecture && { "dockershim.cache": join(directory, "dockershim.cache") }),
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
  const result = await run(builder, [`--build-sea=${config}`], {
    cwd: directory,
    env,
    timeoutMs: BUILD_TIMEOUT_MS,
  });
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
