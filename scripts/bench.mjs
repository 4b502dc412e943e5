#!/usr/bin/env node
/**
 * `npm run bench -- FLAG...`: the shim against the raw engine calls in the same run. Needs an engine that runs and, for
 * the image, a static busybox; installs nothing. The flags are those of bench/main.ts (`npm run bench -- --help`).
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { ensureBuilt } from "./setup/build.mjs";
import { repositoryRoot } from "./setup/paths.mjs";

const log = (/** @type {string} */ line) => process.stderr.write(`bench: ${line}\n`);

try {
  await ensureBuilt({ root: repositoryRoot, log });
  const main = join(repositoryRoot, "bench", "main.ts");
  // Ctrl-C reaches the child by itself, which then removes what it has made.
  process.on("SIGINT", () => undefined);
  const { status } = spawnSync(process.execPath, ["--import", "tsx", main, ...process.argv.slice(2)], {
    cwd: repositoryRoot,
    stdio: "inherit",
  });
  process.exitCode = status ?? 1;
} catch (error) {
  log(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
