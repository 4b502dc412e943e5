/** Runs test files in a process of its own group, and counts. */
import { spawn } from "node:child_process";
import { setMaxListeners } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * @typedef {{ passed: number, failed: number, skipped: number, failedFiles: readonly string[],
 *   skippedTests: readonly string[] }} Counts `skippedTests`: also suites
 */

// Each process of a run listens to the signals.
setMaxListeners(0, process, process.stdout);

/** Collections of a young generation that is yet to grow take a tenth of the CPU time. */
const MEMORY_FLAGS = ["--min-semi-space-size=16"];

/** How long tests may clean up after the first signal. */
const CLEAN_UP_MS = 20_000;

export const write = (/** @type {string} */ text) => void process.stdout.write(text);
const groupModule = new URL("test-group.mjs", import.meta.url).href;
const countReporter = new URL("count-reporter.mjs", import.meta.url).href;

/** @type {Readonly<Counts>} */
export const noCounts = { passed: 0, failed: 0, skipped: 0, failedFiles: [], skippedTests: [] };

/** @param {Counts} a @param {Counts} b @returns {Counts} */
export function addCounts(a, b) {
  return {
    passed: a.passed + b.passed,
    failed: a.failed + b.failed,
    skipped: a.skipped + b.skipped,
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
 * @template {Parameters<typeof runProcess>[0]} Options
 * @param {Options & { flakyFiles: readonly string[] }} options `flakyFiles`: relative to `root`
 * @param {(options: Options & { filesPerProcess?: number }) => Promise<Counts>} run
 * @returns {Promise<{ counts: Counts, passedAgain: readonly string[] }>}
 */
export async function runTestsAgainWhereFailed({ flakyFiles, ...options }, run) {
  const asked = /** @type {Options} */ (/** @type {unknown} */ (options));
  const first = await run(asked);
  const { failedFiles } = first;
  if (failedFiles.length === 0 || failedFiles.length > 3) return { counts: first, passedAgain: [] };
  process.stdout.write(`\nsetup: once more, because something failed there: ${failedFiles.join(" ")}\n`);
  const second = await run({ ...asked, files: failedFiles, filesPerProcess: 1 });
  const isUnproven = second.skippedTests.some((test) => !first.skippedTests.includes(test));
  if (second.failed > 0 || second.passed === 0 || isUnproven) return { counts: first, passedAgain: [] };
  if (!failedFiles.every((file) => flakyFiles.includes(file)))
    return { counts: first, passedAgain: failedFiles };
  const { skipped, skippedTests } = first;
  const passed = first.passed + first.failed;
  return { counts: { ...noCounts, passed, skipped, skippedTests }, passedAgain: failedFiles };
}

/**
 * Runs the files one after another in one process. SIGINT and SIGTERM end its whole group, and so does an output that nobody
 * reads any longer, as SIGPIPE would.
 * @param {{ root: string, files: readonly string[], env: NodeJS.ProcessEnv, runnerFlags: readonly string[], timeoutMs: number,
 *   modules?: string | undefined, taken?: string | undefined, command?: readonly string[], print?: (text: string) => void }}
 *   options `files`: relative to `root`; `timeoutMs`: for each file; `modules`: the directory of the files as JavaScript, else
 *   tsx compiles them; `taken`: as for runFiles(); `command` stands before node's; `print` takes the output
 * @returns {Promise<Counts>}
 */
export async function runProcess(options) {
  const { root, files, env, runnerFlags, timeoutMs, modules, taken, command = [], print = write } = options;
  const folder = mkdtempSync(join(tmpdir(), "dockershim-tests-"));
  const countFile = join(folder, "counts.json");
  const program = [
    `import { runFiles } from ${JSON.stringify(groupModule)};`,
    `await runFiles(${JSON.stringify({ root, files, timeoutMs, modules, taken })});`,
  ];
  const flags = [
    ...MEMORY_FLAGS,
    ...(modules === undefined ? ["--import", "tsx"] : []),
    // To read the maps of all modules is a tenth of the CPU time. A file that fails runs once more, alone.
    ...(modules !== undefined && files.length === 1 ? ["--enable-source-maps"] : []),
    ...["--test-reporter=spec", "--test-reporter-destination=stdout"],
    ...[`--test-reporter=${countReporter}`, `--test-reporter-destination=${countFile}`],
    ...runnerFlags,
  ];
  const module = join(folder, "tests.mjs");
  try {
    writeFileSync(module, program.join("\n"));
    writeFileSync(countFile, "");
    const words = [...command, process.execPath, ...flags, module];
    // A suite has its own timeout, which a file that hangs as it is loaded, or in a hook, does not meet.
    const code = await runGroup(words, { root, env, print, silenceMs: timeoutMs + CLEAN_UP_MS });
    const text = readFileSync(countFile, "utf8");
    const counts = /** @type {Counts} */ ({ ...noCounts, ...(text === "" ? {} : JSON.parse(text)) });
    if (code === 0 || counts.failedFiles.length > 0) return counts;
    // It crashed, or did not end by itself: nobody knows which of the files did that.
    return { ...counts, failed: Math.max(counts.failed, 1), failedFiles: files };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * @param {readonly string[]} words
 * @param {{ root: string, env: NodeJS.ProcessEnv, print: (text: string) => void, silenceMs: number }} options
 *   `silenceMs`: when nothing was printed for so long, which each file does at its end, the group is ended
 * @returns {Promise<number>}
 */
function runGroup([program = "", ...args], { root, env, print, silenceMs }) {
  return new Promise((resolve, reject) => {
    // Its own group: it gets each signal once, from here, and nothing of it is left behind.
    const child = spawn(program, args, {
      cwd: root,
      env: { ...env, ...(process.stdout.isTTY ? { FORCE_COLOR: "1" } : {}) },
      detached: true,
      // Printed from here, so that tests, which would be left to themselves, never meet a lost reader.
      stdio: ["ignore", "pipe", "inherit"],
    });
    child.stdout.setEncoding("utf8").on("data", print);
    const printed = new Promise((end) => child.stdout.once("close", end));
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
    const beginAnew = () => void deadline.refresh();
    const deadline = setTimeout(() => {
      child.stdout.off("data", beginAnew);
      print("\nsetup: a test file takes too long, and the process is ended\n");
      signalGroup("SIGTERM");
      kill = setTimeout(() => signalGroup("SIGKILL"), CLEAN_UP_MS);
    }, silenceMs);
    child.stdout.on("data", beginAnew);
    const stopOnLostReader = () => stop("SIGPIPE");
    process.on("SIGINT", stop).on("SIGTERM", stop);
    process.stdout.on("error", stopOnLostReader);
    child.once("error", reject);
    child.once("exit", (code) => {
      child.stdout.off("data", beginAnew);
      clearTimeout(deadline);
      clearTimeout(kill);
      const finish = async () => {
        signalGroup("SIGKILL");
        await printed;
        process.off("SIGINT", stop).off("SIGTERM", stop);
        process.stdout.off("error", stopOnLostReader);
        if (stopped === undefined) resolve(code ?? 1);
        else reject(new StoppedError(stopped));
      };
      // On a signal nsenter ends before the tests, some of which clean up first.
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
