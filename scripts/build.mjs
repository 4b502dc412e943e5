#!/usr/bin/env node
/** `npm run build`: the npm dependencies and dist, each when it is not up to date. */
import { ensureBuilt } from "./setup/build.mjs";
import { ensureDependencies, nodeVersionProblem } from "./setup/dependencies.mjs";
import { repositoryRoot } from "./setup/paths.mjs";

const log = (/** @type {string} */ line) => process.stderr.write(`build: ${line}\n`);

try {
  const problem = nodeVersionProblem(process.versions.node);
  if (problem !== undefined) throw new Error(problem);
  await ensureDependencies({ root: repositoryRoot, log });
  await ensureBuilt({ root: repositoryRoot, log });
} catch (error) {
  log(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
