#!/usr/bin/env node
/**
 * `npm run mutants -- ROOM...`: would the tests of a room notice a fault? Makes small faults ("mutants") in a sample of places,
 * one at a time, and runs the test files that reach the place until one fails. A mutant that no test notices has survived.
 *
 * All is done in a copy of the tree. Its sources hold all mutants of the run, each off, so that they are compiled once and a
 * process turns one on. A first run of each test file, with all off, finds which mutants it reaches. Stryker has no samples,
 * and cannot repeat a stored list where sources have moved.
 */
import { build } from "esbuild";
import { execFileSync, spawn } from "node:child_process";
import * as fs from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { instrument, mutationsOf, relocated, sample } from "./mutants/mutations.mjs";
import { filesBelow } from "./setup/build.mjs";
import { cacheDirectory, repositoryRoot } from "./setup/paths.mjs";

/**
 * @typedef {{ room: string, file: string, result?: string, by?: string } & import("./mutants/mutations.mjs").Mutation} Mutant
 *   `result`: killed, timeout, survived, unreached (by any test), gone (the place of a stored one); `by`: the test that failed
 */

const usage = `Usage: npm run mutants -- [ROOM...] [FLAG...]

  ROOM            a folder: src/play/kubelet, or what follows src/ or src/shim/
  --count N       mutants for each room (default 40)
  --seed N        another sample (default 1)
  --mutants FILE  repeat the mutants of an earlier run, those of the named rooms or all, and compare
  --tests FOLDER  where the test files are (default test/unit)
  --out FILE      the results as JSON (default .cache/mutants.json)

Exit code: 0 also when mutants survive, 1 when one of --mutants was killed before and is not now.
`;
const folders = ["src", "checkpoints", "test", "bench"];
const FILES_PER_PROCESS = 25;
/** A mutant can make a loop, or a wait, without an end. */
const LEAST_MS = 30_000;

const read = (/** @type {string} */ file) => fs.readFileSync(join(repositoryRoot, file), "utf8");
const sourcesBelow = (/** @type {string} */ folder) =>
  filesBelow(repositoryRoot, folder).filter((file) => file.endsWith(".ts"));
const log = (/** @type {string} */ line) => process.stderr.write(`mutants: ${line}\n`);
const isKilled = (/** @type {Mutant} */ { result = "" }) => ["killed", "timeout"].includes(result);

/** @type {(room: string, folder: string | undefined) => Mutant[]} */
function candidatesIn(room, folder) {
  if (folder === undefined) throw new Error(`there is no folder of sources ${room}`);
  return sourcesBelow(folder).flatMap((file) =>
    mutationsOf(read(file)).map((mutation) => ({ room, file, ...mutation })),
  );
}

/**
 * These files and those that import one of them, directly or through others.
 * @param {Iterable<string>} files
 */
function withImporters(files) {
  /** @type {Map<string, string[]>} */
  const importers = new Map();
  for (const file of folders.flatMap(sourcesBelow)) {
    for (const [, name = ""] of read(file).matchAll(/"(\.{1,2}\/[^"\n]+)\.js"/g)) {
      const imported = `${join(dirname(file), name)}.ts`;
      importers.set(imported, [...(importers.get(imported) ?? []), file]);
    }
  }
  const all = new Set(files);
  // A set is walked to its end, also while it grows.
  for (const file of all) for (const importer of importers.get(file) ?? []) all.add(importer);
  return all;
}

/** @type {(copy: string, mutants: readonly (Mutant & { id: number })[]) => Promise<void>} */
async function fillCopy(copy, mutants) {
  const listed = execFileSync("git", ["ls-files", "-co", "--exclude-standard"], {
    cwd: repositoryRoot,
    encoding: "utf8",
  });
  for (const file of listed
    .split("\n")
    .filter((name) => name !== "" && fs.existsSync(join(repositoryRoot, name))))
    fs.cpSync(join(repositoryRoot, file), join(copy, file), { verbatimSymlinks: true });
  fs.symlinkSync(join(repositoryRoot, "node_modules"), join(copy, "node_modules"));
  fs.mkdirSync(join(copy, "tmp"));
  for (const file of new Set(mutants.map((mutant) => mutant.file)))
    fs.writeFileSync(join(copy, file), instrument(read(file), mutants.filter((mutant) => mutant.file === file))); // prettier-ignore
  const entryPoints = folders.flatMap(sourcesBelow).map((file) => join(copy, file));
  const compiled = { target: "node20", outdir: copy, outbase: copy };
  await build({ absWorkingDir: copy, entryPoints, format: "esm", logLevel: "error", ...compiled });
}

/**
 * How long a process was ready to run while others ran: on a busy machine that is most of its time.
 * @param {number | undefined} pid
 */
function waitedMs(pid) {
  const file = `/proc/${String(pid)}/schedstat`;
  return fs.existsSync(file) ? Number(fs.readFileSync(file, "utf8").split(" ")[1]) / 1e6 : 0;
}

/**
 * Runs test files in one process until one fails.
 * @param {string} copy
 * @param {readonly string[]} files
 * @param {{ env: Record<string, string>, timeoutMs: number }} options
 * @returns {Promise<{ result: string, by: string, ms: number }>}
 */
async function runTests(copy, files, { env, timeoutMs }) {
  const url = (/** @type {string} */ name) => pathToFileURL(join(copy, "scripts", name)).href;
  const names = JSON.stringify(files.map((file) => file.replace(/\.ts$/, ".js")));
  const program = `import { runFiles } from "${url("setup/test-group.mjs")}"; await runFiles({ root: "${copy}", files: ${names} });`;
  const reporter = [`--test-reporter=${url("mutants/switch.mjs")}`, "--test-reporter-destination=stdout"];
  const start = performance.now();
  const child = spawn(process.execPath, [...reporter, "--input-type=module", "--eval", program], {
    cwd: copy,
    // A group of its own: what an unfinished test leaves behind ends with it.
    detached: true,
    env: {
      ...process.env,
      TMPDIR: join(copy, "tmp"),
      NODE_OPTIONS: `--import=${url("mutants/switch.mjs")}`,
      ...env,
    },
    stdio: ["ignore", "pipe", "ignore"],
  });
  let by = "";
  let result = "";
  child.stdout.setEncoding("utf8").on("data", (text) => (by = `${by}${text}`.slice(0, 200)));
  const end = (/** @type {string} */ how) => {
    result ||= how;
    process.off("exit", end);
    try {
      process.kill(-Number(child.pid), "SIGKILL");
    } catch {
      // Nothing of it is left.
    }
  };
  const check = () => {
    const leftMs = timeoutMs - (performance.now() - start - waitedMs(child.pid));
    if (leftMs > 0) timer = setTimeout(check, leftMs);
    else end("timeout");
  };
  let timer = setTimeout(check, timeoutMs);
  process.on("exit", end);
  await new Promise((resolve, reject) => {
    child.once("error", reject).once("exit", (code) => end(code === 0 ? "survived" : "killed")).once("close", resolve); // prettier-ignore
  });
  clearTimeout(timer);
  return { result, by, ms: performance.now() - start };
}

/** @type {<T>(items: readonly T[], work: (item: T) => Promise<void>) => Promise<unknown>} */
function sideBySide(items, work) {
  const queue = items[Symbol.iterator]();
  const one = async () => {
    for (const item of { [Symbol.iterator]: () => queue }) await work(item);
  };
  // Many tests, and most mutants that make one hang, only wait.
  return Promise.all(Array.from({ length: availableParallelism() + 1 }, one));
}

/** @type {(copy: string, mutants: readonly (Mutant & { id: number })[], testFolder: string) => Promise<Map<number, object>>} */
async function tryAll(copy, mutants, testFolder) {
  await fillCopy(copy, mutants);
  const reaching = withImporters(mutants.map(({ file }) => file));
  const tests = sourcesBelow(testFolder).filter((file) => file.endsWith(".test.ts") && reaching.has(file));
  log(`${String(mutants.length)} mutants; ${String(tests.length)} test files import their sources`);
  /** @type {{ file: string, ids: ReadonlySet<number>, ms: number }[]} */
  const reached = [];
  await sideBySide(tests, async (file) => {
    const list = join(copy, "tmp", `reached-${String(tests.indexOf(file))}`);
    const { result, by, ms } = await runTests(copy, [file], {
      env: { DOCKERSHIM_MUTANTS_REACHED: list },
      timeoutMs: 10 * LEAST_MS,
    });
    const ids = fs.existsSync(list) ? fs.readFileSync(list, "utf8").trim().split("\n").map(Number) : [];
    if (result === "survived") reached.push({ file, ids: new Set(ids), ms });
    else log(`left out, fails without a mutant: ${file}: ${by}`);
  });
  // First those that reach the fewest: they are about these places.
  reached.sort((a, b) => a.ids.size - b.ids.size || (a.file < b.file ? -1 : 1));
  const results = new Map();
  await sideBySide(mutants, async ({ id, file, line }) => {
    const files = reached.filter(({ ids }) => ids.has(id));
    let outcome = { result: files.length === 0 ? "unreached" : "survived", by: "" };
    for (let from = 0; from < files.length && outcome.result === "survived"; from += FILES_PER_PROCESS) {
      const group = files.slice(from, from + FILES_PER_PROCESS);
      const timeoutMs = LEAST_MS + 5 * group.reduce((sum, { ms }) => sum + ms, 0);
      const names = group.map((one) => one.file);
      const { result, by } = await runTests(copy, names, {
        env: { DOCKERSHIM_MUTANT: String(id) },
        timeoutMs,
      });
      outcome = { result, by };
    }
    results.set(id, outcome);
    log(`${String(results.size)}/${String(mutants.length)} ${outcome.result}: ${file}: ${line}`);
  });
  return results;
}

/** @param {readonly Mutant[]} mutants */
function report(mutants) {
  process.stdout.write("killed survived unreached  share\n");
  const row = (/** @type {string} */ name, /** @type {readonly Mutant[]} */ all) => {
    const count = (/** @type {string} */ result) => all.filter((mutant) => mutant.result === result).length;
    const killed = all.filter(isKilled).length;
    const share = `${((100 * killed) / Math.max(1, all.length - count("gone"))).toFixed(0)} %`;
    const cells = [killed, count("survived"), count("unreached"), share].map(String);
    process.stdout.write(
      `${cells.map((cell, index) => cell.padStart([6, 8, 9, 6][index] ?? 0)).join(" ")}  ${name}\n`,
    );
  };
  for (const room of new Set(mutants.map((mutant) => mutant.room))) {
    const all = mutants.filter((mutant) => mutant.room === room);
    for (const file of [...new Set(all.map((mutant) => mutant.file))].sort())
      row(file, all.filter((mutant) => mutant.file === file)); // prettier-ignore
    row(`${room}, all`, all);
  }
}

/** @type {(what: string, mutants: readonly Mutant[]) => void} */
function name(what, mutants) {
  const short = (/** @type {string} */ text) => text.replace(/\s+/g, " ").slice(0, 70);
  for (const { file, line, original, replacement } of mutants)
    process.stdout.write(`${what}: ${file}: ${short(line)}: ${short(original)} → ${short(replacement)}\n`);
}

/** @param {string[]} args */
async function main(args) {
  const { values, positionals: rooms } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      count: { type: "string", default: "40" },
      seed: { type: "string", default: "1" },
      mutants: { type: "string" },
      tests: { type: "string", default: "test/unit" },
      out: { type: "string", default: join(cacheDirectory, "mutants.json") },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help === true || (rooms.length === 0 && values.mutants === undefined)) {
    process.stdout.write(usage);
    return values.help === true ? 0 : 2;
  }
  const numbers = { count: Number(values.count), seed: Number(values.seed) };
  const folderOf = (/** @type {string} */ room) => [`src/shim/${room}`, `src/${room}`, room].find((folder) => sourcesBelow(folder).length > 0); // prettier-ignore
  /** @type {Mutant[]} */
  const stored = values.mutants === undefined ? [] : JSON.parse(fs.readFileSync(values.mutants, "utf8"));
  const before = stored.filter(({ room }) => rooms.length === 0 || rooms.includes(room));
  const everywhere =
    values.mutants === undefined
      ? []
      : ["src", "checkpoints"].flatMap((folder) => candidatesIn(folder, folder));
  const chosen =
    values.mutants === undefined
      ? rooms.flatMap((room) => sample(candidatesIn(room, folderOf(room)), numbers))
      : before.map((mutant) => ({ ...relocated(mutant, everywhere), room: mutant.room }));
  const mutants = chosen.map((mutant, id) => ({ ...mutant, id })).filter(({ result }) => result !== "gone");
  const copy = fs.mkdtempSync(join(tmpdir(), "mutants-"));
  const remove = () => fs.rmSync(copy, { recursive: true, force: true, maxRetries: 5 });
  for (const [index, signal] of /** @type {const} */ (["SIGINT", "SIGTERM"]).entries())
    process.once(signal, () => process.exit([130, 143][index]));
  process.once("exit", remove);
  const results = await tryAll(copy, mutants, values.tests);
  const after = chosen.map((mutant, id) => ({ ...mutant, ...results.get(id) }));
  fs.mkdirSync(dirname(values.out), { recursive: true });
  fs.writeFileSync(values.out, `[\n${after.map((mutant) => JSON.stringify(mutant)).join(",\n")}\n]\n`);
  report(after);
  name("survived", after.filter(({ result }) => result === "survived" || result === "unreached")); // prettier-ignore
  if (values.mutants === undefined) return 0;
  const same = after
    .map((now, index) => ({ now, then: before[index] ?? now }))
    .filter(({ now }) => now.result !== "gone");
  const worse = same.filter(({ now, then }) => isKilled(then) && !isKilled(now));
  name("killed before, not now", worse.map(({ now }) => now)); // prettier-ignore
  const killed = [
    same.filter(({ then }) => isKilled(then)).length,
    same.filter(({ now }) => isKilled(now)).length,
  ];
  process.stdout.write(
    `of ${String(same.length)} mutants ${killed.join(" killed before, now ")}; gone: ${String(before.length - same.length)}\n`,
  );
  return worse.length === 0 ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
