#!/usr/bin/env node
/** `npm run build`: the npm dependencies and dist, each when it is not up to date. */
import { ensureBuilt } from "./setup/build.mjs";
import { repositoryRoot } from "./setup/paths.mjs";

const log = (/** @type {string} */ line) => process.stderr.write(`build: ${line}\n`);

try {
  await ensureBuilt({ root: repositoryRoot, log });
} catch (error) {
  log(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
