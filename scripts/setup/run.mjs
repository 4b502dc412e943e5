/** Runs other programs: argv arrays only, with a deadline, output kept so that a failure can be explained. */
import { spawn } from "node:child_process";
import { constants } from "node:os";

/**
 * @typedef {object} RunResult
 * @property {number} code exit code; 128 + the signal's number when a signal ended it, 127 when it cannot be started
 * @property {string} output standard output and error, in the order of arrival; at most the last MiB
 * @property {boolean} timedOut
 */

const KEPT_CHARACTERS = 1024 * 1024;

/**
 * Never rejects: a program that cannot be started has code 127.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv, timeoutMs: number }} options
 * @returns {Promise<RunResult>}
 */
export function run(command, args, { cwd, env, timeoutMs }) {
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd, env: env ?? process.env, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    let timedOut = false;
    const keep = (/** @type {Buffer} */ chunk) => {
      output = (output + chunk.toString("utf8")).slice(-KEPT_CHARACTERS);
    };
    child.stdout.on("data", keep);
    child.stderr.on("data", keep);
    // SIGTERM first, because dpkg wants to end its step; a program that ignores it is killed.
    const stop = setTimeout(() => {
      timedOut = true;
      child.kill("SIGTERM");
    }, timeoutMs);
    const kill = setTimeout(() => child.kill("SIGKILL"), timeoutMs + 10_000);
    /** @type {(code: number) => void} */
    const finish = (code) => {
      clearTimeout(stop);
      clearTimeout(kill);
      // A grandchild (a service that was started) may hold the pipes open for ever.
      child.stdout.destroy();
      child.stderr.destroy();
      resolve({ code, output, timedOut });
    };
    child.once("error", (error) => {
      output += error.message;
      finish(127);
    });
    child.once("exit", (code, signal) => {
      // What is already in the pipes is still read.
      setImmediate(() => {
        finish(code ?? 128 + (signal === null ? 0 : constants.signals[signal]));
      });
    });
  });
}

/** @param {RunResult} result */
export function howItEnded({ code, timedOut }) {
  return timedOut ? "took too long" : `ended with code ${String(code)}`;
}

/**
 * The last lines of a text that say something.
 * @param {string} text
 * @param {number} [lines]
 */
export function tail(text, lines = 20) {
  return text
    .split("\n")
    .map((line) => line.trimEnd())
    .filter((line) => line !== "")
    .slice(-lines)
    .map((line) => `    ${line}`)
    .join("\n");
}

/**
 * Host names and addresses of a package registry are nobody's business in a log that may be published.
 * @param {string} text
 */
export function withoutHosts(text) {
  return text
    .replace(/\b([a-z][a-z0-9+.-]*:\/\/)[^/\s"')\]]+/gi, "$1<host>")
    .replace(/\b(getaddrinfo \S+|connect \S+|lookup) \S+/gi, "$1 <host>");
}
