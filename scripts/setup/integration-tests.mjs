/**
 * Runs files of integration tests side by side. Those that have an engine or namespaces of their own run beside all
 * others, as many at once as there are processors. Those of the engine that the run was given run one after another:
 * each shim on an engine sees the pods, images and events of all. When the others have ended, their engines take some of
 * these.
 */
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { relative, resolve } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { openNamespaces } from "./namespaces.mjs";
import { addCounts, noCounts, runTests } from "./test-runner.mjs";

/**
 * Long files of the given engine that another one of this host can run as well: they look at nothing of the host but what
 * their own shims and pods have.
 */
const movable =
  /\/(?:engine-faults|idempotence|killed-shim|legacy-pods|lifecycle|namespaces|stuck-pods)\.test\.ts$/;

const startOwnEngine = new URL("../../test/support/start-own-engine.ts", import.meta.url).href;

/**
 * @typedef {Parameters<typeof runTests>[0] & { mayMove?: boolean }} Options `mayMove`: the given engine is that of the
 *   programs of this host
 * @typedef {import("./namespaces.mjs").Namespaces} Namespaces
 * @typedef {{ run: typeof runTests, open: typeof openNamespaces }} Means
 * @typedef {{ file: string, kind: string }} TestFile
 */

/**
 * @param {Options} options
 * @param {Means} means
 * @returns {ReturnType<typeof runTests>}
 */
export async function runIntegrationTests(options, means = { run: runTests, open: openNamespaces }) {
  const files = options.files.map((file) => ({ file, kind: kindOf(resolve(options.root, file)) }));
  const shared = files.filter(({ kind }) => kind === "shared");
  const own = files.filter(({ kind }) => kind !== "shared");
  const queues = [shared, ...Array.from({ length: Math.min(availableParallelism(), own.length) }, () => own)];
  // What may move is begun last.
  if (options.mayMove === true)
    shared.sort((one, other) => Number(isMovable(one)) - Number(isMovable(other)));
  const endAll = (/** @type {unknown} */ error) => {
    for (const queue of queues) queue.length = 0;
    throw error;
  };
  const results = await Promise.allSettled(
    queues.map((queue) => runQueue(queue, queue === shared ? [] : shared, options, means).catch(endAll)),
  );
  let counts = noCounts;
  for (const result of results) {
    // The others have ended, too, and have removed what they made.
    if (result.status === "rejected") throw result.reason;
    counts = addCounts(counts, result.value);
  }
  return counts;
}

/**
 * `shared` for a file whose tests use the engine that the run was given; the others start what they need.
 * @param {string} path
 */
export function kindOf(path) {
  const found = /^await (withOwnEngine|inNamespaces)\(|\b(startEngineElsewhere)\(\)/m.exec(
    readFileSync(path, "utf8"),
  );
  return found?.[1] ?? found?.[2] ?? "shared";
}

/** @param {TestFile} file */
function isMovable({ file }) {
  return movable.test(`/${file}`);
}

/**
 * Runs files until the queue is empty, one after another. Those with an engine of their own get the same namespaces, in
 * which they start one for all; where one has, that engine takes from the end of `shared` afterwards what may move.
 * @param {TestFile[]} queue
 * @param {TestFile[]} shared
 * @param {Options} options
 * @param {Means} means
 */
async function runQueue(queue, shared, options, { run, open }) {
  /** @type {Namespaces | undefined} */
  let namespaces;
  let hasEngine = false;
  let counts = noCounts;
  try {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const { file, kind } = next;
      // Without the right to make them the file itself says that it is left out.
      if (kind === "withOwnEngine") namespaces ??= await open(options.root).catch(() => undefined);
      const inside = kind === "withOwnEngine" ? namespaces : undefined;
      const found = await runFile(file, options, run, inside);
      hasEngine ||= inside !== undefined && found.passed > 0;
      counts = addCounts(counts, found);
    }
    if (options.mayMove !== true || !hasEngine) return counts;
    // The file is not of the kind that starts its engine itself.
    const runnerFlags = [...options.runnerFlags, `--import=${startOwnEngine}`];
    for (let last = shared.at(-1); last !== undefined && isMovable(last); last = shared.at(-1)) {
      shared.pop();
      counts = addCounts(counts, await runFile(last.file, { ...options, runnerFlags }, run, namespaces));
    }
    return counts;
  } finally {
    await namespaces?.close();
  }
}

/**
 * Prints what the tests of a file printed when they have ended, without node's summary of a single file.
 * @param {string} file
 * @param {Options} options
 * @param {typeof runTests} run
 * @param {Namespaces | undefined} namespaces
 */
async function runFile(file, options, run, namespaces) {
  const start = performance.now();
  let output = "";
  try {
    const counts = await run({
      ...options,
      files: [file],
      env: { ...options.env, ...namespaces?.env },
      command: namespaces?.command ?? options.command ?? [],
      print: (text) => (output += text),
    });
    // A runner that was killed has no totals: its file has failed.
    const isKilled = counts.runnerFailures > 0 && counts.failed === 0;
    return isKilled ? { ...counts, failed: 1, failedFiles: [file] } : counts;
  } finally {
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    const summary = /^(?:#|ℹ) (?:tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) /;
    process.stdout.write(`${relative(options.root, resolve(options.root, file))}: ${seconds} s\n`);
    const lines = output.split("\n").filter((line) => !summary.test(stripVTControlCharacters(line)));
    process.stdout.write(lines.join("\n"));
  }
}
