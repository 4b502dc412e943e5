/**
 * Writes V8's code cache for the program of the executable, with the functions that were used by a server until it made its state
 * directory, which fails. Until then nothing waits for another process, so that each training gives the same bytes. V8 notes in a
 * function which of its compilers have worked on it, at times of their own: only the first one works here.
 *
 * Arguments: a directory with the program, parts of src as CommonJS and what the executable carries; the file to write.
 */
import { readFileSync, writeFileSync } from "node:fs";
import * as modules from "node:module";
import { basename, join } from "node:path";
import { setFlagsFromString } from "node:v8";

const compilers = ["sparkplug", "maglev", "opt"];
const [directory = "", target = ""] = process.argv.slice(2);
const require = modules.createRequire(import.meta.url);
const read = (/** @type {string} */ path) => readFileSync(join(directory, basename(path)));
/** As inside of the executable: the name of the file is part of the cache. */
const sea = {
  isSea: () => true,
  getRawAsset: (/** @type {string} */ path) => new Uint8Array(read(path)).buffer,
};
const createRequire = () => (/** @type {string} */ name) => (name === "node:sea" ? sea : require(name));
const requireThere = (/** @type {string} */ name) =>
  name === "node:module" ? { ...modules, createRequire } : require(name);
/** @type {import("../../src/main/cached-program.js")} */
const { readProgram } = require(join(directory, "parts/main/cached-program.cjs"));

for (const name of compilers) setFlagsFromString(`--no-${name}`);
const flags = ["--state-dir=/proc/none", "--docker-endpoint=unix:///none", "--network-plugin=no-op"];
process.argv = [process.execPath, process.execPath, "serve", ...flags];
process.stderr.write = () => true;
const { run, cacheFile } = readProgram("/dockershim", read);
await run(/** @type {NodeJS.Require} */ (requireThere)).ended;
for (const name of compilers) setFlagsFromString(`--${name}`);
const content = cacheFile();
if (process.exitCode !== 1 || content === undefined) process.exit(2);
writeFileSync(target, content);
process.exit(0);
