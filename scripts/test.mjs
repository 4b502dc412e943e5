#!/usr/bin/env node
/**
 * `npm test`: the same set-up as `npm start`, then all tests with node's runner.
 * Its flags and words are in setup/test-options.mjs; `npm test -- --help` prints them.
 *
 * Where no engine can be had, the tests without one run, and the last lines say what was left out; that is no failure.
 * An engine that had to be set up keeps running, as it does after `npm start`; the last lines say how to undo that.
 * The last line of all is "N passed, N failed, N skipped". Exit code 0 only if something ran and nothing failed, 2 when
 * the command line is not understood; that comes before all else.
 *
 * The tests find in their environment: DOCKERSHIM_TEST_DOCKER_ENDPOINT (unix://...), DOCKERSHIM_TEST_REGISTRY_BINARY
 * (path of docker-registry, empty when there is none), DOCKERSHIM_TEST_LONG ("1" or not set), DOCKERSHIM_TEST_MAIN (the file of
 * the program), DOCKERSHIM_TEST_MODULES (the directory that has sources and tests as JavaScript, where there is one).
 */
import { constants } from "node:os";
import { ensureBuilt, filesBelow } from "./setup/build.mjs";
import { ensureDependencies } from "./setup/dependencies.mjs";
import { defaultEndpoint } from "./setup/engine.mjs";
import { ensureEngine, setupFootprint } from "./setup/ensure-engine.mjs";
import { ensureNetworkTools, findRegistry } from "./setup/install.mjs";
import { setupAllowed } from "./setup/options.mjs";
import { cacheDirectory, hostStateDirectory, repositoryRoot } from "./setup/paths.mjs";
import { flakyLines, readFlakyTests } from "./setup/flaky-tests.mjs";
import { findBusybox } from "./setup/busybox.mjs";
import { runQueues } from "./setup/test-queues.mjs";
import { StoppedError, runTestsAgainWhereFailed } from "./setup/test-runner.mjs";
import { UsageError, isAsked, testOptions, usage } from "./setup/test-options.mjs";

const log = (/** @type {string} */ line) => process.stdout.write(`setup: ${line}\n`);
const MINUTE_MS = 60_000;

/** @param {string} folder @param {readonly string[]} words */
function testFiles(folder, words) {
  const files = filesBelow(repositoryRoot, folder);
  return files.filter((file) => file.endsWith(".test.ts") && isAsked(file, words));
}

/**
 * The engine for the integration tests, or why there is none.
 * @param {{ endpoint: string | undefined, allowSetup: boolean }} options `endpoint` that the user named
 * @returns {Promise<{ endpoint: string } | { endpoint: undefined, reasons: string[] }>}
 */
async function testEngine(options) {
  if (process.platform !== "linux") return { endpoint: undefined, reasons: ["they run on Linux only"] };
  if (process.getuid?.() !== 0)
    return { endpoint: undefined, reasons: ["they run as root only: sudo npm test"] };
  const named = options.endpoint ?? process.env["DOCKER_HOST"] ?? "";
  const wanted = named === "" ? defaultEndpoint : named;
  const { allowSetup } = options;
  const result = await ensureEngine({
    endpoint: wanted,
    allowSetup,
    stateDirectory: hostStateDirectory,
    log,
  });
  if (result.engine === undefined) return { endpoint: undefined, reasons: [result.reason, ...result.advice] };
  const { endpoint, detail } = result.engine;
  if (!endpoint.startsWith("unix://")) {
    return {
      endpoint: undefined,
      reasons: [`they need an engine on this host, and ${endpoint} is a remote one`],
    };
  }
  log(`${detail} at ${endpoint}`);
  return { endpoint };
}

/** @param {readonly string[]} argv */
async function main(argv) {
  const asked = testOptions(argv);
  if (asked === "help") {
    process.stdout.write(usage);
    return 0;
  }
  const { unit, long, endpoint, runnerFlags, words } = asked;
  const allowSetup = setupAllowed(argv, process.env);
  const lines = [];
  await (unit ? ensureDependencies : ensureBuilt)({ root: repositoryRoot, log });

  const env = { ...process.env, ...(long ? { DOCKERSHIM_TEST_LONG: "1" } : {}) };
  const timeoutMs = (long ? 120 : 15) * MINUTE_MS;
  const flakyTests = readFlakyTests(repositoryRoot);
  // The engine is set up first: what it prints is not to be lost between the tests' lines.
  const files = unit ? [] : testFiles("test/integration", words);
  const engine = files.length === 0 ? undefined : await testEngine({ endpoint, allowSetup });
  /** @type {NodeJS.ProcessEnv} */
  let integrationEnv = {};
  if (engine?.endpoint !== undefined) {
    const registry = await findRegistry({ cacheDirectory, allowDownload: allowSetup, log });
    const noTools = await ensureNetworkTools({ allowSetup, stateDirectory: hostStateDirectory, log });
    if (noTools !== undefined) lines.push("", `Tests of pod networks are LEFT OUT, ${noTools}`);
    await findBusybox({ cacheDirectory, allowDownload: allowSetup, log }).catch(
      (/** @type {unknown} */ error) => {
        const reason = error instanceof Error ? error.message : String(error);
        lines.push("", `NO static busybox, tests that run containers fail: ${reason}`);
      },
    );
    if (registry.path === "")
      lines.push("", `NO docker-registry, tests of pulls are left out: ${registry.reason}`);
    integrationEnv = {
      DOCKERSHIM_TEST_DOCKER_ENDPOINT: engine.endpoint,
      DOCKERSHIM_TEST_REGISTRY_BINARY: registry.path,
    };
  } else if (engine !== undefined) {
    lines.push("", `LEFT OUT: ${String(files.length)} files of integration tests did not run:`);
    lines.push(...engine.reasons.map((reason) => `  ${reason}`), ...files.map((file) => `  - ${file}`));
  }
  const run = {
    root: repositoryRoot,
    files: [...testFiles("test/unit", words), ...(engine?.endpoint === undefined ? [] : files)],
    env,
    integrationEnv,
    runnerFlags,
    timeoutMs,
    flakyFiles: flakyTests.map(({ file }) => file),
    // With a pattern, node ends the process of a group after the first suite without a match.
    ...(runnerFlags.some((flag) => /^--test-(name-pattern|skip-pattern|only)/.test(flag))
      ? { filesPerProcess: 1 }
      : {}),
    // Of an engine that was named the caller wants to know what it does.
    mayMove: endpoint === undefined && (process.env["DOCKER_HOST"] ?? "") === "",
  };
  const runWith = (/** @type {{ env?: NodeJS.ProcessEnv, unitModules?: string }} */ built) =>
    runTestsAgainWhereFailed({ ...run, ...built }, runQueues);
  // esbuild is not there before the npm packages are.
  const { withTestBuild } = await import("./setup/test-build.mjs");
  const hasUnits = run.files.some((file) => file.startsWith("test/unit/"));
  // c8 counts the lines of the files that it was told of, which are the sources.
  const { counts, passedAgain } =
    hasUnits && env["NODE_V8_COVERAGE"] === undefined
      ? await withTestBuild(repositoryRoot, ({ main: file, modules }) =>
          runWith({
            env: { DOCKERSHIM_TEST_MAIN: file, DOCKERSHIM_TEST_MODULES: modules, ...env },
            unitModules: modules,
          }),
        )
      : await runWith({});
  lines.push(...flakyLines(passedAgain, flakyTests));
  const { undo } = setupFootprint(hostStateDirectory);
  if (engine?.endpoint !== undefined && undo.length > 0) {
    lines.push(
      "",
      "The set-up installed or started things on this host, and the engine keeps running. To undo it:",
    );
    lines.push(...undo.map((line) => `  ${line}`));
  }
  const ran = counts.passed + counts.failed;
  if (ran === 0) lines.push("", "NO TEST RAN");
  lines.push(
    "",
    `${String(counts.passed)} passed, ${String(counts.failed)} failed, ${String(counts.skipped)} skipped`,
  );
  process.stdout.write(`${lines.join("\n")}\n`);
  return counts.failed === 0 && ran > 0 ? 0 : 1;
}

// As SIGPIPE ends other programs when nobody reads their output, as in `npm test | head`: Node.js ignores that signal. While
// tests run, the runner listens too, and ends them first.
process.stdout.on("error", () => {
  if (process.stdout.listenerCount("error") === 1) process.exit(128 + constants.signals.SIGPIPE);
});
try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (error instanceof UsageError) {
    process.stderr.write(`npm test: ${error.message}\n\n${usage}`);
    process.exitCode = 2;
  } else {
    log(error instanceof Error ? error.message : String(error));
    process.stdout.write("\n0 passed, 1 failed, 0 skipped\n");
    process.exitCode = error instanceof StoppedError ? error.exitCode : 1;
  }
}
