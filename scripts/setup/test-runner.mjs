/** Runs test files with node's runner in a process group of its own, and counts. */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
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
  ...{ passed: 0, failed: 0, skipped: 0, runnerFailures: 0 },
  ...{ failedFiles: [], skippedTests: [] },
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
 * The totals that count-reporter.mjs wrote; a cancelled test is a failed one.
 * @param {string} text
 * @returns {Counts}
 */
export function parseCounts(text) {
  const value = (/** @type {string} */ name) => {
    const matches = [...text.matchAll(new RegExp(`^${name} (\\d+)$`, "gm"))];
    return matches.reduce((sum, match) => sum + Number(match[1]), 0);
  };
  // A runner that was killed may have left half a line.
  const texts = (/** @type {string} */ name) =>
    [...text.matchAll(new RegExp(`^${name} (.+)\n`, "gm"))].map(([, found = ""]) => found);
  return {
    passed: value("pass"),
    failed: value("fail") + value("cancelled"),
    skipped: value("skipped") + value("todo"),
    runnerFailures: 0,
    failedFiles: [...new Set(texts("failedFile"))],
    skippedTests: texts("skippedTest").map((json) => String(JSON.parse(json))),
  };
}

/**
 * Runs the files, and those in which something failed once more: they work with real engines, kernels and clocks, and a
 * machine that is busy with something else must not fail them. What fails twice has failed, and so has all when something
 * is skipped the second time only, which may be what failed. What fails once is named. More than three such files are no
 * accident and are not run again.
 * @param {Parameters<typeof runTests>[0]} options
 * @param {typeof runTests} run
 * @returns {Promise<{ counts: Counts, unstable: readonly string[] }>}
 */
export async function runTestsAgainWhereFailed(options, run = runTests) {
  const first = await run(options);
  const { failedFiles } = first;
  // A runner that was killed names files, but has no totals: nobody knows what did not run.
  const isWhole = first.failed > 0;
  if (!isWhole || failedFiles.length === 0 || failedFiles.length > 3) return { counts: first, unstable: [] };
  process.stdout.write(`\nsetup: once more, because something failed there: ${failedFiles.join(" ")}\n`);
  const second = await run({ ...options, files: failedFiles });
  const isUnproven = second.skippedTests.some((test) => !first.skippedTests.includes(test));
  if (second.failed > 0 || second.runnerFailures > 0 || second.passed === 0 || isUnproven)
    return { counts: first, unstable: [] };
  const { skipped, skippedTests } = first;
  const passed = first.passed + first.failed;
  return { counts: { ...noCounts, passed, skipped, skippedTests }, unstable: failedFiles };
}

/**
 * Flags of node's runner that this version of Node.js may not know yet.
 * @param {string} version as in process.versions.node
 * @param {{ concurrency: number | undefined, timeoutMs: number }} limits
 */
export function limitFlags(version, { concurrency, timeoutMs }) {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const flags = [];
  if (concurrency !== undefined && (major > 20 || minor >= 10))
    flags.push(`--test-concurrency=${String(concurrency)}`);
  if (major > 20 || minor >= 11) flags.push(`--test-timeout=${String(timeoutMs)}`);
  return flags;
}

/**
 * Runs the files and prints what node's runner says. SIGINT and SIGTERM end the whole group, and so does an output that
 * nobody reads any longer, as SIGPIPE would; see lost-output.mjs.
 * @param {{ root: string, files: readonly string[], env: NodeJS.ProcessEnv, concurrency: number | undefined,
 *   runnerFlags: readonly string[], timeoutMs: number }} options `timeoutMs` for one file
 * @returns {Promise<Counts>}
 */
export async function runTests({ root, files, env, concurrency, runnerFlags, timeoutMs }) {
  if (files.length === 0) return noCounts;
  const folder = mkdtempSync(join(tmpdir(), "dockershim-counts-"));
  const countFile = join(folder, "counts");
  const reporter = fileURLToPath(new URL("count-reporter.mjs", import.meta.url));
  const args = [
    ...["--import", "tsx", "--test", "--test-reporter=spec", "--test-reporter-destination=stdout"],
    ...[`--test-reporter=${reporter}`, `--test-reporter-destination=${countFile}`],
    ...limitFlags(process.versions.node, { concurrency, timeoutMs }),
    ...runnerFlags,
    ...files,
  ];
  try {
    const code = await runGroup(args, { root, env });
    const counts = parseCounts(readFileSync(countFile, "utf8"));
    return { ...counts, runnerFailures: code === 0 ? 0 : 1 };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * @param {readonly string[]} args
 * @param {{ root: string, env: NodeJS.ProcessEnv }} options
 * @returns {Promise<number>}
 */
function runGroup(args, { root, env }) {
  return new Promise((resolve, reject) => {
    // Its own group: it gets each signal once, from here, and nothing of it is left behind.
    const child = spawn(process.execPath, args, {
      cwd: root,
      env,
      detached: true,
      // Printed from here, so that the runner, which would leave its tests to themselves, never meets a lost reader. It
      // keeps a terminal, for its colours; one that is lost sends a signal.
      stdio: ["ignore", process.stdout.isTTY ? "inherit" : "pipe", "inherit"],
    });
    child.stdout?.on("data", (chunk) => process.stdout.write(chunk));
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
    const stopUnread = () => stop("SIGPIPE");
    process.on("SIGINT", stop).on("SIGTERM", stop);
    process.stdout.on("error", stopUnread);
    child.once("error", reject);
    child.once("exit", (code) => {
      clearTimeout(kill);
      const finish = async () => {
        signalGroup("SIGKILL");
        await printed;
        process.off("SIGINT", stop).off("SIGTERM", stop);
        process.stdout.off("error", stopUnread);
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
