/**
 * Loaded into a shim before its own code (`--import`). Ends the process by SIGKILL right before its n-th
 * external change: a change of a file, a request that changes something in the engine, the start of a
 * program. The next process can find nothing that changes between two of these steps, so they are all the
 * moments that matter.
 *
 * The directory in DOCKERSHIM_TEST_KILL_POINTS has the order: the file `order` contains `record` or the
 * number of the step, or is missing. A new order restarts the count. `journal` gets a line for each step.
 * This file is JavaScript, so that the program starts as fast as without it.
 */
import childProcess from "node:child_process";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import net from "node:net";
import { basename, join } from "node:path";

const directory = process.env["DOCKERSHIM_TEST_KILL_POINTS"] ?? "";
// A timer writes the history: its steps would be others in each run. Its reader skips what a kill has torn.
process.env["DOCKERSHIM_HISTORY_MAX_BYTES"] = "0";
const { readFileSync, appendFileSync } = fs;
let order = "";
let steps = 0;
/** What this file itself does to note a step is none. */
let isNoting = false;

/**
 * To be called before each step.
 * @param {string} name
 */
function step(name) {
  if (isNoting) return;
  isNoting = true;
  try {
    note(name);
  } finally {
    isNoting = false;
  }
}

/** @param {string} name */
function note(name) {
  const present = orderNow();
  if (present !== order) {
    order = present;
    steps = 0;
  }
  if (order === "") return;
  appendFileSync(join(directory, "journal"), `${name}\n`);
  if (String(steps) === order.split(" ")[0]) process.kill(process.pid, "SIGKILL");
  steps += 1;
}

/** @returns {string} */
function orderNow() {
  try {
    return readFileSync(join(directory, "order"), "utf8");
  } catch {
    return "";
  }
}

/**
 * Makes `object[name]` a step, named by `describe`; undefined from that: it is none.
 * @param {object} object
 * @param {string} name
 * @param {(words: unknown[]) => string | undefined} describe
 */
function watch(object, name, describe) {
  const methods = /** @type {Record<string, (this: unknown, ...words: unknown[]) => unknown>} */ (object);
  const original = methods[name];
  if (original === undefined) throw new Error(`nothing to watch: ${name}`);
  methods[name] = function (...words) {
    const described = describe(words);
    if (described !== undefined) step(`${name} ${described}`);
    return original.apply(this, words);
  };
}

/**
 * The program, or that it gets its input; undefined for other requests.
 * @param {Buffer} bytes
 */
function requestIn(bytes) {
  const kind = bytes.readUInt32LE(8);
  const [program = ""] = bytes.toString("utf8", 24).split("\0", 1);
  // Most of what it does without a program of the node changes nothing.
  if (kind === 1 && bytes.readUInt32LE(12) === 0 && !program.endsWith("mapped-root")) return undefined;
  if (kind === 1) return `run ${program}`;
  return kind === 2 ? "input" : undefined;
}

/** @param {unknown[]} words */
const first = ([word]) => String(word);
for (const name of ["link", "mkdir", "rename", "rm", "rmdir", "symlink", "unlink", "writeFile"]) {
  watch(fs.promises, name, first);
}

for (const name of ["renameSync", "unlinkSync", "writeFileSync"]) watch(fs, name, first);

const writes = fs.constants.O_WRONLY | fs.constants.O_RDWR | fs.constants.O_CREAT;
/** @param {unknown[]} words */
const written = ([path, flags = "r"]) => {
  const isWrite = typeof flags === "number" ? (flags & writes) !== 0 : flags !== "r";
  return isWrite ? String(path) : undefined;
};
watch(fs.promises, "open", written);
watch(fs, "openSync", written);
const probe = await fs.promises.open("/dev/null");
const fileHandle = /** @type {object} */ (Object.getPrototypeOf(probe));
await probe.close();
for (const name of ["write", "writev", "writeFile", "appendFile", "truncate"])
  watch(fileHandle, name, () => "");

// A request to the engine begins with its head: src/shim/engine/http/connection.ts.
watch(net.Socket.prototype, "write", ([text]) =>
  typeof text === "string" ? /^((?:DELETE|POST|PUT) \S+) HTTP\/1\.1\r\n/.exec(text)?.[1] : undefined,
);
watch(childProcess, "spawn", first);
const { spawn } = childProcess;
/** What the helper starts is started by this program: native/run-programs.c. */
childProcess.spawn = /** @type {typeof spawn} */ (
  /** @param {Parameters<typeof spawn>} words */
  (...words) => {
    const child = spawn(...words);
    if (child.stdin !== null && basename(words[0]).startsWith("helper-"))
      watch(child.stdin, "write", ([bytes]) => requestIn(/** @type {Buffer} */ (bytes)));
    return child;
  }
);
watch(childProcess, "execFile", first);
syncBuiltinESMExports();
