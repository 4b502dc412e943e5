#!/usr/bin/env node
/**
 * `npm start -- FLAG...`: sets up what is missing (npm dependencies, the build, a Docker Engine, the demo's image) and
 * runs the shim with these flags in the foreground. `--no-setup`, or DOCKERSHIM_NO_SETUP=1, forbids to install
 * packages and to start an engine.
 *
 * The shim runs in this process, so that every signal reaches it and its exit code is the script's. On Ctrl-C it gets
 * SIGINT twice within a moment: once from the terminal, once from npm, which passes it on.
 *
 * The shim prints the first screen. Its part about the set-up comes through DOCKERSHIM_SETUP_REPORT, JSON:
 *   installed        string[]  packages that the set-up installed on this host, now or earlier
 *   engineStartedBy  "setup" | "systemd" | "other"
 *   keepsRunning     boolean   whether the engine goes on when the shim ends
 *   undo             string[]  shell lines that take back what was installed and started; empty when nothing was
 *   playCommand      string[]  words of the command that runs the pods of a file
 *   playManifest     string    file of a first pod; empty when the demo's image could not be made
 */
import {
  builtMain,
  demoImage,
  demoManifest,
  hostStateDirectory,
  launcher,
  repositoryRoot,
} from "./setup/paths.mjs";
import { ensureBuilt } from "./setup/build.mjs";
import { ensureBusyboxImage } from "./setup/demo-image.mjs";
import { defaultEndpoint } from "./setup/engine.mjs";
import { ensureEngine, setupFootprint } from "./setup/ensure-engine.mjs";
import { flagValue, namedEndpoint, setupAllowed, shimArguments, startsServer } from "./setup/options.mjs";
import { execFile } from "node:child_process";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";

const log = (/** @type {string} */ line) => process.stderr.write(`setup: ${line}\n`);

/**
 * The engine's endpoint as a flag for the shim, when it would not find this engine by itself.
 * @param {readonly string[]} flags
 * @param {string} endpoint
 * @returns {string[]}
 */
function endpointFlag(flags, endpoint) {
  const isSaid = ["--docker-endpoint", "--config"].some((flag) => flagValue(flags, flag) !== undefined);
  const isDefault = endpoint === defaultEndpoint && (process.env["DOCKER_HOST"] ?? "") === "";
  return isSaid || isDefault ? [] : ["--docker-endpoint", endpoint];
}

/**
 * The engine of Docker's context, as the program itself finds it; undefined when another place has the endpoint. A
 * configuration that is refused is told by the program.
 * @param {readonly string[]} flags
 * @returns {Promise<{ endpoint: string, detail: string } | undefined>}
 */
async function contextEngine(flags) {
  const words = [builtMain, "config", ...flags.filter((word) => word !== "serve")];
  try {
    const { stdout } = await promisify(execFile)(process.execPath, words);
    const [, endpoint, detail] = /^docker-endpoint +(\S+) +default (context .+)$/m.exec(stdout) ?? [];
    return endpoint === undefined || detail === undefined ? undefined : { endpoint, detail };
  } catch {
    return undefined;
  }
}

/**
 * @param {string} endpoint
 * @param {boolean} allowDownload
 */
async function makeDemoImage(endpoint, allowDownload) {
  try {
    await ensureBusyboxImage({ endpoint, reference: demoImage, log, allowDownload });
    return true;
  } catch (error) {
    log(
      `the demo's image ${demoImage} could not be made: ${error instanceof Error ? error.message : String(error)}`,
    );
    return false;
  }
}

/**
 * The flags for the shim, undefined when it cannot be started.
 * @param {readonly string[]} argv
 * @returns {Promise<string[] | undefined>}
 */
async function setUp(argv) {
  const flags = shimArguments(argv);
  const allowSetup = setupAllowed(argv, process.env);
  await ensureBuilt({ root: repositoryRoot, log });
  if (!startsServer(flags)) return flags;
  const named = namedEndpoint(flags, process.env);
  if (named?.startsWith("ssh://") === true) {
    log(`the engine is ${named}`); // The program itself connects, as with a context.
    return flags;
  }
  const context = named === undefined ? await contextEngine(flags) : undefined;
  if (context !== undefined && !context.endpoint.startsWith("unix://")) {
    // The program itself connects, with the context's keys or through ssh, and says what does not answer.
    log(`the engine is ${context.endpoint}, of ${context.detail}`);
    return flags;
  }
  const endpoint = named ?? context?.endpoint;
  const result = await ensureEngine({ endpoint, allowSetup, stateDirectory: hostStateDirectory, log });
  if (result.engine === undefined) {
    log(result.reason);
    if (context !== undefined) log(`it is of ${context.detail}`);
    // The user named that engine: the shim waits for it, or says why it never can be one.
    if (endpoint !== undefined) return flags;
    for (const line of result.advice) log(`  ${line}`);
    return undefined;
  }
  const hasImage = await makeDemoImage(result.engine.endpoint, allowSetup);
  const footprint = setupFootprint(hostStateDirectory);
  const play = { playCommand: [launcher, "play"], playManifest: hasImage ? demoManifest : "" };
  const report = { ...footprint, keepsRunning: true, ...play };
  process.env["DOCKERSHIM_SETUP_REPORT"] = JSON.stringify(report);
  return context === undefined ? [...flags, ...endpointFlag(flags, result.engine.endpoint)] : flags;
}

const flags = await setUp(process.argv.slice(2)).catch((/** @type {unknown} */ error) => {
  log(error instanceof Error ? error.message : String(error));
  return undefined;
});
if (flags === undefined) {
  process.exitCode = 1;
} else {
  process.argv = [process.argv[0] ?? process.execPath, builtMain, ...flags];
  await import(pathToFileURL(builtMain).href);
}
