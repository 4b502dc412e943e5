#!/usr/bin/env node
/**
 * `npm run ok`: what must pass before a commit, some parts side by side. One line for each part; all that a part printed when
 * it fails.
 *
 * With names, only these parts run, as in `npm run ok -- types lint`. What earlier runs found out about unchanged files is
 * kept in .cache; `--no-cache` looks at everything anew, as CI does.
 */
import { spawn } from "node:child_process";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { ensureDependencies } from "./setup/dependencies.mjs";
import { cacheDirectory, repositoryRoot } from "./setup/paths.mjs";

const packages = join(repositoryRoot, "node_modules");
const tsc = join(packages, "typescript-native", "lib", "tsc.js");
const eslint = join(packages, "eslint", "bin", "eslint.js");
const prettier = join(packages, "prettier", "bin", "prettier.cjs");

/**
 * The longest first.
 * @type {Readonly<Record<string, { command: readonly string[], cache?: readonly string[] }>>}
 */
const parts = {
  unit: { command: ["scripts/test.mjs", "--unit"] },
  lint: {
    command: [eslint, "."],
    cache: ["--cache", "--cache-strategy", "content", "--cache-location", join(cacheDirectory, "eslint")],
  },
  types: {
    command: [tsc, "--noEmit"],
    cache: ["--incremental", "--tsBuildInfoFile", join(cacheDirectory, "types.tsbuildinfo")],
  },
  format: {
    command: [prettier, "--check", "."],
    cache: ["--cache", "--cache-strategy", "content", "--cache-location", join(cacheDirectory, "prettier")],
  },
  layers: { command: ["scripts/check-layers.mjs"] },
  words: { command: ["scripts/check-words.mjs"] },
};

/** @param {readonly string[]} argv */
function readArguments(argv) {
  const names = argv.filter((argument) => argument !== "--no-cache");
  const unknown = names.find((name) => !Object.hasOwn(parts, name));
  if (unknown !== undefined)
    throw new Error(`unknown part "${unknown}", there are: ${Object.keys(parts).join(" ")}`);
  const asked = Object.entries(parts).filter(([name]) => names.length === 0 || names.includes(name));
  return { asked, useCache: !argv.includes("--no-cache") };
}

/**
 * @param {string} name
 * @param {readonly string[]} command
 * @returns {Promise<boolean>} whether it passed
 */
function runPart(name, command) {
  const start = performance.now();
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, command, {
      cwd: repositoryRoot,
      stdio: ["ignore", "pipe", "pipe"],
    });
    running.add(child);
    /** @type {Buffer[]} */
    const output = [];
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => output.push(chunk));
    child.once("error", reject);
    child.once("close", (code) => {
      running.delete(child);
      const seconds = ((performance.now() - start) / 1000).toFixed(1);
      if (code !== 0) process.stdout.write(`\n${Buffer.concat(output).toString()}\n`);
      process.stdout.write(
        `${code === 0 ? "ok    " : "FAILED"}  ${name.padEnd(8)}${seconds.padStart(6)} s\n`,
      );
      resolve(code === 0);
    });
  });
}

/** @type {Set<import("node:child_process").ChildProcess>} */
const running = new Set();
for (const signal of /** @type {const} */ (["SIGINT", "SIGTERM"])) {
  process.once(signal, () => {
    for (const child of running) child.kill(signal);
    process.exitCode = 130;
  });
}

/** @param {readonly string[]} argv */
async function main(argv) {
  const { asked, useCache } = readArguments(argv);
  await ensureDependencies({ root: repositoryRoot, log: (line) => process.stdout.write(`${line}\n`) });
  const start = performance.now();
  const waiting = [...asked];
  /** @type {string[]} */
  const failed = [];
  const runWaiting = async () => {
    for (
      let next = waiting.shift();
      next !== undefined && process.exitCode === undefined;
      next = waiting.shift()
    ) {
      const [name, { command, cache = [] }] = next;
      if (!(await runPart(name, [...command, ...(useCache ? cache : [])]))) failed.push(name);
    }
  };
  // Unit tests take more than one processor; the other parts run one after another beside them.
  const atOnce = Math.max(2, Math.floor(availableParallelism() / 2));
  await Promise.all(Array.from({ length: atOnce }, runWaiting));
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  process.stdout.write(`${failed.length === 0 ? "ok" : `FAILED: ${failed.join(" ")}`}, ${seconds} s\n`);
  process.exitCode ??= failed.length === 0 ? 0 : 1;
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`npm run ok: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 2;
}
