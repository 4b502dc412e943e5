/**
 * Runs test files side by side. Unit tests run before the others, which keep the machine busy and change its processes and
 * interfaces. Files of integration tests that have an engine or namespaces of their own run beside all others, one more at
 * once than there are processors, for they wait half of the time. Those of the engine that the run was given run one after
 * another: each shim on an engine sees the pods, images and events of all. When the others have ended, their engines take
 * some of these.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { openNamespaces } from "./namespaces.mjs";
import { addCounts, noCounts, runProcess, write } from "./test-runner.mjs";

/** A start with all modules takes seconds; the queues are to end at the same time. */
const FILES_PER_PROCESS = { shared: 6, movable: 3, withOwnEngine: 3 };

/**
 * Of unit tests; each takes the next file, until all are taken. Many files wait for a program or a clock for a third of the
 * time.
 */
const unitProcesses = availableParallelism() + 2;

/** Begun first, those of integration tests alone, so that none of them is what the end waits for. */
const longest =
  /\/(?:kill-points|migration-nodes|play-elsewhere|rehearse|pod-network-traffic|play-containerd|serve-end|contract|golden-nodes|bundle|session-end|state-sync-link)\./;

/**
 * Long files of the given engine that another one of this host can run as well: they look at nothing of the host but what
 * their own shims and pods have.
 */
const movable =
  /\/(?:container-settings|engine-faults|exec-attach|image-volumes|legacy-pods|lifecycle|namespaces|restart|shadow|streaming-[\w-]+|stuck-pods|switches)\.test\.ts$/;

const startOwnEngine = new URL("../../test/support/start-own-engine.ts", import.meta.url).href;

/**
 * @typedef {Omit<Parameters<typeof runProcess>[0], "modules"> & { integrationEnv?: NodeJS.ProcessEnv, mayMove?: boolean,
 *   filesPerProcess?: number, unitModules?: string | undefined }} Options `integrationEnv`: in addition to `env`; `mayMove`: the
 *   given engine is that of the programs of this host; `filesPerProcess`: at most; `unitModules`: those of the unit tests, built
 * @typedef {import("./namespaces.mjs").Namespaces} Namespaces
 * @typedef {{ run: typeof runProcess, open: typeof openNamespaces }} Means
 * @typedef {{ files: readonly string[], kind: string }} Job
 */

/** @param {Options} options @param {Means} means @returns {ReturnType<typeof runProcess>} */
export async function runQueues(options, means = { run: runProcess, open: openNamespaces }) {
  const taken = mkdtempSync(join(tmpdir(), "dockershim-tests-"));
  try {
    return await runAllQueues({ ...options, taken }, means);
  } finally {
    rmSync(taken, { recursive: true, force: true });
  }
}

/** @param {Options} options @param {Means} means @returns {ReturnType<typeof runProcess>} */
async function runAllQueues(options, means) {
  const { shared, own, unit } = jobsOf(options);
  const endAll = (/** @type {unknown} */ error) => {
    for (const queue of [shared, own, unit]) queue.length = 0;
    throw error;
  };
  const isAlone = shared.length + own.length + unit.length === 1;
  const asked = isAlone ? { print: write, ...options } : options;
  const runAll = (/** @type {Job[][]} */ queues) =>
    Promise.allSettled(
      queues.map((queue) => runQueue(queue, queue === own ? shared : [], asked, means).catch(endAll)),
    );
  const ofUnits = await runAll(Array.from({ length: unitProcesses }, () => unit));
  const ofOthers = await runAll([
    shared,
    ...Array.from({ length: Math.min(availableParallelism() + 1, own.length) }, () => own),
  ]);
  const results = [...ofUnits, ...ofOthers];
  let counts = noCounts;
  for (const result of results) {
    // The others have ended, too, and have removed what they made.
    if (result.status === "rejected") throw result.reason;
    counts = addCounts(counts, result.value);
  }
  return counts;
}

/** @param {Options} options @returns {Record<"shared" | "own" | "unit", Job[]>} */
function jobsOf({ root, files, mayMove, filesPerProcess = Infinity }) {
  const isUnit = (/** @type {string} */ file) => file.startsWith("test/unit/");
  const single = files
    .filter((file) => !isUnit(file))
    .map((file) => ({ files: [file], kind: kindOf(resolve(root, file)) }));
  const isOf = (/** @type {string} */ kind) => (/** @type {Job} */ job) => job.kind === kind;
  const isLong = (/** @type {Job} */ { files: [file] }) => longest.test(`/${file ?? ""}`);
  const moves = (/** @type {Job} */ job) => mayMove === true && isMovable(job);
  const inGroups = (/** @type {Job[]} */ jobs, size = filesPerProcess) => {
    /** @type {Job[]} */
    const groups = [];
    for (let start = 0; start < jobs.length; start += Math.min(size, filesPerProcess)) {
      const group = jobs.slice(start, start + Math.min(size, filesPerProcess));
      groups.push({ files: group.flatMap((job) => job.files), kind: group[0]?.kind ?? "" });
    }
    return groups;
  };
  const ofGiven = single.filter(isOf("shared"));
  const others = single.filter((job) => job.kind !== "shared" && !isLong(job));
  const units = files.filter(isUnit).map((file) => ({ files: [file], kind: "unit" }));
  const ofUnits = inGroups([...units.filter(isLong), ...units.filter((job) => !isLong(job))]);
  const withEngine = others.filter(isOf("withOwnEngine"));
  return {
    // What may move is begun last.
    shared: [
      ...inGroups(
        ofGiven.filter((job) => !moves(job)),
        FILES_PER_PROCESS.shared,
      ),
      ...inGroups(ofGiven.filter(moves), FILES_PER_PROCESS.movable),
    ],
    own: [
      ...single.filter((job) => job.kind !== "shared" && isLong(job)),
      ...inGroups(withEngine, FILES_PER_PROCESS.withOwnEngine),
      ...others.filter((job) => !withEngine.includes(job)),
    ],
    unit: ofUnits.length > 1 ? ofUnits : units.slice(0, unitProcesses).flatMap(() => ofUnits),
  };
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

/** @param {Job} job */
function isMovable({ files }) {
  return files.every((file) => movable.test(`/${file}`));
}

/**
 * Runs jobs until the queue is empty, one after another. Files with an engine of their own get the same namespaces, in
 * which they start one for all; where one has, that engine takes from the end of `shared` afterwards what may move.
 * @param {Job[]} queue
 * @param {Job[]} shared
 * @param {Options} options
 * @param {Means} means
 */
async function runQueue(queue, shared, options, { run, open }) {
  // Without the right to make them the file itself says that it is left out.
  const opened = () => open(options.root).catch(() => undefined);
  /** @type {Namespaces | undefined} */
  let namespaces;
  let hasEngine = false;
  let counts = noCounts;
  try {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      if (next.kind === "inNamespaces") {
        const fresh = await opened();
        counts = addCounts(counts, await runJob(next, options, run, fresh).finally(() => fresh?.close()));
        continue;
      }
      if (next.kind === "withOwnEngine") namespaces ??= await opened();
      const inside = next.kind === "withOwnEngine" ? namespaces : undefined;
      const found = await runJob(next, options, run, inside);
      hasEngine ||= inside !== undefined && found.passed > 0;
      counts = addCounts(counts, found);
    }
    if (options.mayMove !== true || !hasEngine) return counts;
    // The file is not of the kind that starts its engine itself.
    const runnerFlags = [...options.runnerFlags, `--import=${startOwnEngine}`];
    for (let last = shared.at(-1); last !== undefined && isMovable(last); last = shared.at(-1)) {
      shared.pop();
      counts = addCounts(counts, await runJob(last, { ...options, runnerFlags }, run, namespaces));
    }
    return counts;
  } finally {
    await namespaces?.close();
  }
}

/**
 * Prints what the tests of a process printed when they have ended.
 * @param {Job} job
 * @param {Options} options
 * @param {typeof runProcess} run
 * @param {Namespaces | undefined} namespaces
 */
async function runJob({ files, kind }, options, run, namespaces) {
  const start = performance.now();
  let output = "";
  try {
    return await run({
      ...options,
      files,
      modules: kind === "unit" ? options.unitModules : undefined,
      taken: kind === "unit" ? options.taken : undefined,
      env: { ...options.env, ...(kind === "unit" ? {} : options.integrationEnv), ...namespaces?.env },
      command: namespaces?.command ?? options.command ?? [],
      print: options.print ?? ((text) => (output += text)),
    });
  } finally {
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    const others =
      files.length === 1 ? "" : ` and ${kind === "unit" ? "some of " : ""}${String(files.length - 1)} others`;
    process.stdout.write(`${files[0] ?? ""}${others}: ${seconds} s\n${output}`);
  }
}
