/**
 * What a process of a test run does: it runs test files one after another, each as a suite with the file's name, so that
 * hooks and failures belong to their file. See test-runner.mjs.
 */
import { mkdirSync } from "node:fs";
import { describe, test } from "node:test";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/** A process that has nothing to run any more, but does not end, is named after this time. */
const END_MS = 30_000;

/** Listeners of other events come and go with libraries, and disturb no test. */
const watchedEvents = /^(SIG[A-Z0-9]+|uncaughtException|unhandledRejection|warning)$/;

/** What belongs to the process, not to a file, and is another file's precondition. */
function processState() {
  const counts = process
    .eventNames()
    .filter((name) => watchedEvents.test(String(name)))
    .map((name) => [`listeners of ${String(name)}`, process.listenerCount(name)]);
  return new Map(
    /** @type {[string, unknown][]} */ ([
      ["working directory", process.cwd()],
      ["umask", process.umask()],
      ...Object.entries(process.env).map(([name, value]) => [`environment variable ${name}`, value]),
      ...["setTimeout", "setInterval", "setImmediate", "Date"].map((name) => [
        name,
        Reflect.get(globalThis, name),
      ]),
      ["Date.now", Date.now],
      ["performance.now", performance.now],
      ...counts,
    ]),
  );
}

/**
 * The names of what differs.
 * @param {ReadonlyMap<string, unknown>} before
 * @param {ReadonlyMap<string, unknown>} after
 */
function differences(before, after) {
  const names = new Set([...before.keys(), ...after.keys()]);
  return [...names].filter((name) => before.get(name) !== after.get(name));
}

/**
 * Whether no other process has the file: a directory is made once.
 * @param {string} taken
 * @param {string} file
 */
function take(taken, file) {
  try {
    mkdirSync(join(taken, encodeURIComponent(file)));
    return true;
  } catch (error) {
    if (/** @type {{ code?: string }} */ (error).code !== "EEXIST") throw error;
    return false;
  }
}

/**
 * Runs the files. A file that leaves something of the process changed fails, for the files after it would fail because of
 * it.
 * @param {{ root: string, files: readonly string[], timeoutMs?: number, modules?: string, taken?: string }} options
 *   `files`: relative to `root`; `timeoutMs`: for each; `modules`: the directory that has them as JavaScript; `taken`: an empty
 *   directory for processes that share the files: each file runs in the process that is free first
 */
export async function runFiles({ root, files, timeoutMs = Infinity, modules, taken }) {
  const pathOf = (/** @type {string} */ file) =>
    modules === undefined ? join(root, file) : join(modules, file.replace(/\.ts$/, ".js"));
  // A file that calls process.exit() would hide the files after it.
  let isDone = false;
  process.on("exit", () => {
    if (!isDone) process.exitCode = 1;
  });
  const own = [];
  for (const file of files) {
    if (taken !== undefined && !take(taken, file)) continue;
    own.push(file);
    let before = new Map();
    await describe(file, { timeout: timeoutMs }, async () => {
      before = processState();
      await import(pathToFileURL(pathOf(file)).href);
    });
    const changed = differences(before, processState());
    if (changed.length > 0) {
      await describe(file, () => {
        test("leaves the process as it was", () => {
          throw new Error(`changed for the files after it: ${changed.join(", ")}`);
        });
      });
    }
  }
  isDone = true;
  setTimeout(() => {
    process.stderr.write(
      `the tests are over, but the process does not end because of: ${process.getActiveResourcesInfo().join(" ")}\n` +
        `run each of these files alone to find which one it is:\n${own.map((file) => `  ${file}\n`).join("")}`,
    );
    process.exit(1);
  }, END_MS).unref();
}
