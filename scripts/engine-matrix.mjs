#!/usr/bin/env node
/**
 * `npm run engine-matrix -- ENGINE...`: runs the integration tests against each of several engines, one engine after the
 * other, and prints one table and the names of what failed or was skipped, in Markdown (docs/run/engines.md has such a table).
 *
 * Exit code: 0 when something ran everywhere and nothing failed, 1 otherwise, 2 when the command line is not understood.
 */
import { join, resolve } from "node:path";
import { ensureBuilt, filesBelow } from "./setup/build.mjs";
import { findBusybox } from "./setup/busybox.mjs";
import {
  elsewhereVariable,
  reasonForNoEngineElsewhere,
  startEngineElsewhere,
} from "./setup/engine-elsewhere.mjs";
import {
  UsageError,
  commandIn,
  engineRow,
  matrixOptions,
  renderMatrix,
  usage,
} from "./setup/engine-matrix.mjs";
import { parseEndpoint, request } from "./setup/engine.mjs";
import { cacheDirectory, repositoryRoot } from "./setup/paths.mjs";
import { findRegistry } from "./setup/install.mjs";
import { isAsked } from "./setup/test-options.mjs";
import { kindOf, runQueues } from "./setup/test-queues.mjs";
import { StoppedError } from "./setup/test-runner.mjs";

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
    "socketPath" in address && pid !== undefined
      ? { ...address, socketPath: join(`/proc/${String(pid)}/root`, address.socketPath) }
      : address;
  const answer = await request(reached, { path: "/info", deadlineMs: INFO_DEADLINE_MS });
  if (answer.status !== 200) throw new Error(`/info of ${endpoint}: status ${String(answer.status)}`);
  return JSON.parse(answer.text);
}

/**
 * What the tests find in their environment.
 * @param {MatrixEngine} engine
 * @param {import("./setup/engine-elsewhere.mjs").EngineElsewhere | undefined} elsewhere
 * @returns {Record<string, string>}
 */
function environmentOf({ name, endpoint, transport }, elsewhere) {
  if (transport === undefined || elsewhere === undefined)
    return { DOCKERSHIM_TEST_DOCKER_ENDPOINT: endpoint };
  const way = elsewhere[transport];
  if ("reason" in way) throw new Error(`${name}: ${way.reason}`);
  const { DOCKER_CERT_PATH: certificates, ...env } = way.env;
  return {
    ...env,
    DOCKERSHIM_TEST_DOCKER_ENDPOINT: way.endpoint,
    DOCKERSHIM_TEST_DOCKER_SOCKET: elsewhere.socket,
    ...(certificates === undefined ? {} : { DOCKERSHIM_TEST_DOCKER_CERT_PATH: certificates }),
    [elsewhereVariable]: elsewhere.pid,
  };
}

/** @param {readonly string[]} argv */
async function main(argv) {
  const asked = matrixOptions(argv);
  if (asked === "help") {
    process.stdout.write(usage);
    return 0;
  }
  const files = filesBelow(repositoryRoot, "test/integration")
    .filter((file) => file.endsWith(".test.ts") && isAsked(file, asked.words))
    .filter((file) => kindOf(resolve(repositoryRoot, file)) === "shared");
  if (files.length === 0)
    throw new UsageError("no file of integration tests has one of these words in its path");
  await ensureBuilt({ root: repositoryRoot, log });
  await findBusybox({ cacheDirectory, allowDownload: true, log }); // For the image of the tests' containers.
  const registry = await findRegistry({ cacheDirectory, allowDownload: false, log });
  const wantsElsewhere = asked.engines.some(({ transport }) => transport !== undefined);
  const reason = wantsElsewhere && reasonForNoEngineElsewhere();
  if (reason !== false) throw new Error(`no engine elsewhere: ${reason}`);
  const elsewhere = wantsElsewhere ? await startEngineElsewhere() : undefined;
  try {
    // An engine that does not answer is an error before the first test runs.
    const infos = new Map();
    for (const engine of asked.engines) {
      const isHere = engine.transport === undefined || elsewhere === undefined;
      infos.set(
        engine,
        await readInfo(isHere ? engine : { ...engine, endpoint: `unix://${elsewhere.socket}` }),
      );
    }
    const rows = [];
    for (const engine of asked.engines) {
      const start = performance.now();
      const counts = await runQueues({
        root: repositoryRoot,
        files,
        env: {
          ...process.env,
          ...environmentOf(engine, elsewhere),
          DOCKERSHIM_NO_SETUP: "1",
          DOCKERSHIM_TEST_REGISTRY_BINARY: registry.path,
        },
        runnerFlags: [],
        timeoutMs: FILE_TIMEOUT_MS,
        command: commandIn(engine, repositoryRoot),
      });
      const minutes = (performance.now() - start) / 60_000;
      rows.push({ ...engineRow(engine, infos.get(engine)), counts, minutes });
      // A run over many engines takes hours.
      process.stderr.write(renderMatrix(rows.slice(-1)));
    }
    process.stdout.write(`\n${renderMatrix(rows)}`);
    return rows.every(({ counts }) => counts.failed === 0 && counts.passed > 0) ? 0 : 1;
  } finally {
    await elsewhere?.close();
  }
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  const isUsage = error instanceof UsageError;
  log(error instanceof Error ? error.message : String(error));
  if (isUsage) process.stderr.write(usage);
  process.exitCode = error instanceof StoppedError ? error.exitCode : isUsage ? 2 : 1;
}
