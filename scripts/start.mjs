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
import { ensureEngine, setupFootprint } from "./setup/ensure-engine.mjs";
import { setupAllowed, shimArguments, startsServer } from "./setup/options.mjs";
import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { promisify } from "node:util";

const log = (/** @type {string} */ line) => process.stderr.write(`setup: ${line}\n`);

/**
 * The engine that the program will use, and where it has that from; undefined for a configuration that it refuses, which
 * the program tells.
 * @param {readonly string[]} flags
 * @returns {Promise<{ endpoint: string, source: string } | undefined>}
 */
async function configuredEngine(flags) {
  const words = [builtMain, "config", ...flags.filter((word) => word !== "serve")];
  try {
    const { stdout } = await promisify(execFile)(process.execPath, words);
    const [, endpoint, source = ""] = /^docker-endpoint +(\S+) +(.*)$/m.exec(stdout) ?? [];
    return endpoint === undefined ? undefined : { endpoint, source };
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
  const configured = await configuredEngine(flags);
  if (configured === undefined) return flags;
  const { endpoint, source } = configured;
  const isRemoteContext = source.includes("context ") && !endpoint.startsWith("unix://");
  if (endpoint.startsWith("ssh://") || isRemoteContext) {
    // The program itself connects, with the context's keys or through ssh, and says what does not answer.
    log(`the engine is ${endpoint}, of ${source}`);
    return flags;
  }
  const result = await ensureEngine({ endpoint, allowSetup, stateDirectory: hostStateDirectory, log });
  if (result.engine === undefined) {
    log(result.reason);
    // The user named that engine: the shim waits for it, or says why it never can be one.
    if (source !== "default") {
      log(`it is of ${source}`);
      return flags;
    }
    for (const line of result.advice) log(`  ${line}`);
    return undefined;
  }
  const hasImage = await makeDemoImage(result.engine.endpoint, allowSetup);
  const footprint = setupFootprint(hostStateDirectory);
  const play = { playCommand: [launcher, "play"], playManifest: hasImage ? demoManifest : "" };
  const report = { ...footprint, keepsRunning: true, ...play };
  process.env["DOCKERSHIM_SETUP_REPORT"] = JSON.stringify(report);
  return flags;
}

const flags = await setUp(process.argv.slice(2)).catch((/** @type {unknown} */ error) => {
  log(error instanceof Error ? error.message : String(error));
  return undefined;
});
if (flags === undefined) {
  process.exitCode = 1;
} else {
  process.argv = [process.argv[0] ?? process.execPath, builtMain, ...flags];
  createRequire(import.meta.url)(builtMain);
}
