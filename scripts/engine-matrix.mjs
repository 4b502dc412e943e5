#!/usr/bin/env node
/**
 * `npm run engine-matrix -- ENGINE...`: runs the integration tests against each of several engines, one engine after the
 * other, and prints one table and the names of what failed, in Markdown (docs/engines.md has such a table).
 *
 * Exit code: 0 when something ran everywhere and nothing failed, 1 otherwise, 2 when the command line is not understood.
 */
import { join, resolve } from "node:path";
import { ensureBuilt, filesBelow } from "./setup/build.mjs";
import { findBusybox } from "./setup/busybox.mjs";
import { ensureDependencies } from "./setup/dependencies.mjs";
import {
  UsageError,
  commandIn,
  engineRow,
  matrixOptions,
  renderMatrix,
  usage,
} from "./setup/engine-matrix.mjs";
import { parseEndpoint, request } from "./setup/engine-http.mjs";
import { kindOf } from "./setup/integration-tests.mjs";
import { cacheDirectory, repositoryRoot } from "./setup/paths.mjs";
import { findRegistry } from "./setup/registry.mjs";
import { StoppedError, addCounts, noCounts, runTests } from "./setup/test-runner.mjs";

/** @typedef {import("./setup/engine-matrix.mjs").MatrixEngine} MatrixEngine */

const log = (/** @type {string} */ line) => process.stderr.write(`engine-matrix: ${line}\n`);
const FILE_TIMEOUT_MS = 15 * 60_000;
const INFO_DEADLINE_MS = 10_000;

/**
 * /info of the engine. A socket's path is one in the namespaces of the engine's process, if there is one.
 * @param {MatrixEngine} engine
 */
async function readInfo({ endpoint, pid }) {
  const address = parseEndpoint(endpoint, process.env);
  const reached =
    address.kind === "unix" && pid !== undefined
      ? { ...address, socketPath: join(`/proc/${String(pid)}/root`, address.socketPath) }
      : address;
  const answer = await request(reached, { path: "/info", deadlineMs: INFO_DEADLINE_MS });
  if (answer.status !== 200) throw new Error(`/info of ${endpoint}: status ${String(answer.status)}`);
  return JSON.parse(answer.body.toString("utf8"));
}

/** @param {readonly string[]} argv */
async function main(argv) {
  const asked = matrixOptions(argv);
  if (asked === "help") {
    process.stdout.write(usage);
    return 0;
  }
  const files = filesBelow(repositoryRoot, "test/integration")
    .filter((file) => file.endsWith(".test.ts") && kindOf(resolve(repositoryRoot, file)) === "shared")
    .filter((file) => asked.words.length === 0 || asked.words.some((word) => file.includes(word)));
  if (files.length === 0)
    throw new UsageError("no file of integration tests has one of these words in its path");
  // An engine that does not answer is an error before the first test runs.
  const infos = new Map();
  for (const engine of asked.engines) infos.set(engine, await readInfo(engine));
  await ensureDependencies({ root: repositoryRoot, log });
  await ensureBuilt({ root: repositoryRoot, log });
  await findBusybox({ cacheDirectory, allowDownload: true, log }); // For the image of the tests' containers.
  const registry = await findRegistry({ cacheDirectory, allowDownload: false, log });
  const rows = [];
  for (const engine of asked.engines) {
    const start = performance.now();
    let counts = noCounts;
    for (const file of files) {
      log(`${engine.name}: ${file}`);
      let output = "";
      const one = await runTests({
        root: repositoryRoot,
        files: [file],
        env: {
          ...process.env,
          DOCKERSHIM_NO_SETUP: "1",
          DOCKERSHIM_TEST_DOCKER_ENDPOINT: engine.endpoint,
          DOCKERSHIM_TEST_REGISTRY_BINARY: registry.path,
        },
        concurrency: 1,
        runnerFlags: [],
        timeoutMs: FILE_TIMEOUT_MS,
        command: commandIn(engine, repositoryRoot),
        print: (text) => (output += text),
      });
      const isKilled = one.runnerFailures > 0 && one.failed === 0;
      const counted = isKilled ? { ...one, failed: 1, failedFiles: [file] } : one;
      if (counted.failed > 0) process.stderr.write(output);
      counts = addCounts(counts, counted);
    }
    const minutes = (performance.now() - start) / 60_000;
    rows.push({ ...engineRow(engine, infos.get(engine)), counts, minutes });
    // A run over many engines takes hours.
    process.stderr.write(renderMatrix(rows.slice(-1)));
  }
  process.stdout.write(renderMatrix(rows));
  return rows.every(({ counts }) => counts.failed === 0 && counts.passed > 0) ? 0 : 1;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  const isUsage = error instanceof UsageError;
  log(error instanceof Error ? error.message : String(error));
  if (isUsage) process.stderr.write(usage);
  process.exitCode = error instanceof StoppedError ? error.exitCode : isUsage ? 2 : 1;
}
