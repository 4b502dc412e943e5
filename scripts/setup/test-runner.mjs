/** Runs test files with node's runner in a process group of its own, and counts. */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

/**
 * @typedef {{ passed: number, failed: number, skipped: number, runnerFailures: number,
 *   failedFiles: readonly string[], skippedTests: readonly string[] }} Counts `skippedTests`: also suites
 */

/** How long tests may clean up after the first signal. */
const CLEAN_UP_MS = 20_000;

/** @type {Readonly<Counts>} */
export const noCounts = {
  passed: 0,
  failed: 0,
  skipped: 0,
  runnerFailures: 0,
  failedFiles: [],
  skippedTests: [],
};

/**
 * @param {Counts} a
 * @param {Counts} b
 * @returns {Counts}
 */
export function addCounts(a, b) {
  return {
    passed: a.passed + b.passed,
    failed: a.failed + b.failed,
    skipped: a.skipped + b.skipped,
    runnerFailures: a.runnerFailures + b.runnerFailures,
    failedFiles: [...a.failedFiles, ...b.failedFiles],
    skippedTests: [...a.skippedTests, ...b.skippedTests],
  };
}

/** The run was ended by a signal; nothing is known about the tests. */
export class StoppedError extends Error {
  /** @param {NodeJS.Signals} signal */
  constructor(signal) {
    super(`stopped by ${signal}`);
    this.exitCode = 128 + constants.signals[signal];
  }
}

/**
 * Runs the files, and those in which something failed once more, each in a process of its own. What fails twice has failed,
 * and so has all when something is skipped the second time only, which may be what failed. A file that passes then counts as
 * passed only if test/flaky-tests.json names it. More than three such files are no accident and are not run again.
 * @param {Parameters<typeof runTests>[0] & { flakyFiles: readonly string[] }} options `flakyFiles`: relative to `root`
 * @param {typeof runTests} run
 * @returns {Promise<{ counts: Counts, passedAgain: readonly string[] }>}
 */
export async function runTestsAgainWhereFailed({ flakyFiles, ...options }, run = runTests) {
  const first = await run(options);
  const { failedFiles } = first;
  // A runner that was killed has no totals: nobody knows what did not run.
  const isWhole = first.failed > 0;
  if (!isWhole || failedFiles.length === 0 || failedFiles.length > 3)
    return { counts: first, passedAgain: [] };
  process.stdout.write(`\nsetup: once more, because something failed there: ${failedFiles.join(" ")}\n`);
  const second = await run({ ...options, files: failedFiles, filesPerProcess: 1 });
  const isUnproven = second.skippedTests.some((test) => !first.skippedTests.includes(test));
  if (second.failed > 0 || second.runnerFailures > 0 || second.passed === 0 || isUnproven)
    return { counts: first, passedAgain: [] };
  if (!failedFiles.every((file) => flakyFiles.includes(file)))
    return { counts: first, passedAgain: failedFiles };
  const { skipped, skippedTests } = first;
  const passed = first.passed + first.failed;
  return { counts: { ...noCounts, passed, skipped, skippedTests }, passedAgain: failedFiles };
}

/**
 * Runs the files and prints what node's runner says. SIGINT and SIGTERM end the whole group, and so does an output that
 * nobody reads any longer, as SIGPIPE would.
 * @param {{ root: string, files: readonly string[], env: NodeJS.ProcessEnv, concurrency: number | undefined,
 *   runnerFlags: readonly string[], timeoutMs: number, filesPerProcess?: number, command?: readonly string[],
 *   print?: (text: string) => void }} options `files`: relative to `root`; `concurrency`: processes at a time; `timeoutMs`:
 *   for one process; `command` stands before the runner's; `print` takes its output
 * @returns {Promise<Counts>}
 */
export async function runTests({
  root,
  files,
  env,
  concurrency,
  runnerFlags,
  timeoutMs,
  filesPerProcess = 1,
  command = [],
  print,
}) {
  if (files.length === 0) return noCounts;
  const folder = mkdtempSync(join(tmpdir(), "dockershim-tests-"));
  const countFile = join(folder, "counts.json");
  const groups = writeGroups(folder, { root, files, filesPerProcess });
  const reporter = fileURLToPath(new URL("count-reporter.mjs", import.meta.url));
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  // Node.js before 20.11 refuses them.
  const limits = [
    `--test-timeout=${timeoutMs}`,
    ...(concurrency === undefined ? [] : [`--test-concurrency=${concurrency}`]),
  ];
  const args = [
    "--import",
    "tsx",
    "--test",
    "--test-reporter=spec",
    "--test-reporter-destination=stdout",
    `--test-reporter=${reporter}`,
    `--test-reporter-destination=${countFile}`,
    ...(major > 20 || minor >= 11 ? limits : []),
    ...runnerFlags,
    ...groups.keys(),
  ];
  try {
    const code = await runGroup([...command, process.execPath, ...args], { root, env, print });
    // Empty when the runner was killed.
    const text = existsSync(countFile) ? readFileSync(countFile, "utf8") : "";
    const counts = /** @type {Counts} */ ({ ...noCounts, ...(text === "" ? {} : JSON.parse(text)) });
    // A process that crashed has the name of its generated module.
    const failedFiles = counts.failedFiles.flatMap(
      (name) => groups.get(join(folder, basename(name))) ?? name,
    );
    return { ...counts, failedFiles, runnerFailures: code === 0 ? 0 : 1 };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Writes one module for each process; each runs so many files.
 * @param {string} folder
 * @param {{ root: string, files: readonly string[], filesPerProcess: number }} options
 * @returns {Map<string, readonly string[]>} the files of each module
 */
function writeGroups(folder, { root, files, filesPerProcess }) {
  const groups = new Map();
  const runner = new URL("test-group.mjs", import.meta.url).href;
  for (let start = 0; start < files.length; start += filesPerProcess) {
    const group = files.slice(start, start + filesPerProcess);
    // The names keep their order when they are sorted, which newer versions of Node.js do.
    const path = join(folder, `${String(start).padStart(5, "0")}.test.mjs`);
    const lines = [
      `import { runFiles } from ${JSON.stringify(runner)};`,
      `await runFiles(${JSON.stringify(root)}, ${JSON.stringify(group)});`,
    ];
    writeFileSync(path, lines.join("\n"));
    groups.set(path, group);
  }
  return groups;
}

/**
 * @param {readonly string[]} words
 * @param {{ root: string, env: NodeJS.ProcessEnv, print: ((text: string) => void) | undefined }} options
 * @returns {Promise<number>}
 */
function runGroup([program = "", ...args], { root, env, print }) {
  const isTerminal = process.stdout.isTTY;
  return new Promise((resolve, reject) => {
    // Its own group: it gets each signal once, from here, and nothing of it is left behind.
    const child = spawn(program, args, {
      cwd: root,
      env: { ...env, ...(isTerminal && print !== undefined ? { FORCE_COLOR: "1" } : {}) },
      detached: true,
      // Printed from here, so that the runner, which would leave its tests to themselves, never meets a lost reader. It
      // keeps a terminal, for its colours; one that is lost sends a signal.
      stdio: ["ignore", isTerminal && print === undefined ? "inherit" : "pipe", "inherit"],
    });
    child.stdout?.setEncoding("utf8").on("data", print ?? ((text) => process.stdout.write(text)));
    const printed = child.stdout && new Promise((end) => child.stdout?.once("close", end));
    const signalGroup = (/** @type {NodeJS.Signals} */ signal) => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, signal);
      } catch (error) {
        // The group is gone already.
        if (/** @type {{ code?: string }} */ (error).code !== "ESRCH") throw error;
      }
    };
    /** @type {NodeJS.Timeout | undefined} */
    let kill;
    /** @type {NodeJS.Signals | undefined} */
    let stopped;
    const stop = (/** @type {NodeJS.Signals} */ signal) => {
      // A terminal's Ctrl-C comes twice, the second time through npm.
      if (stopped !== undefined) return;
      stopped = signal;
      // Node.js ignores SIGPIPE, here and there.
      signalGroup(signal === "SIGPIPE" ? "SIGTERM" : signal);
      kill = setTimeout(() => signalGroup("SIGKILL"), CLEAN_UP_MS);
    };
    const stopOnLostReader = () => stop("SIGPIPE");
    process.on("SIGINT", stop).on("SIGTERM", stop);
    process.stdout.on("error", stopOnLostReader);
    child.once("error", reject);
    child.once("exit", (code) => {
      clearTimeout(kill);
      const finish = async () => {
        signalGroup("SIGKILL");
        await printed;
        process.off("SIGINT", stop).off("SIGTERM", stop);
        process.stdout.off("error", stopOnLostReader);
        if (stopped === undefined) resolve(code ?? 1);
        else reject(new StoppedError(stopped));
      };
      // On a signal node's runner ends before the test files, some of which clean up first.
      if (stopped === undefined || child.pid === undefined) finish().catch(reject);
      else groupEnd(child.pid, CLEAN_UP_MS).then(finish).catch(reject);
    });
  });
}

/**
 * Waits until no process of a group is left, or the time is over.
 * @param {number} group
 * @param {number} timeoutMs
 */
async function groupEnd(group, timeoutMs) {
  const end = Date.now() + timeoutMs;
  while (Date.now() < end) {
    try {
      process.kill(-group, 0);
    } catch {
      return;
    }
    await sleep(100);
  }
}
