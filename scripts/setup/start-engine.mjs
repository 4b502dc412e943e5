/** Starts a Docker Engine that is installed: by systemd where that is the init system, else as a process of its own. */
import { spawn } from "node:child_process";
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { defaultEndpoint, probeEngine } from "./engine.mjs";
import { findProgram, systemPath } from "./install.mjs";
import { readProcess } from "./record.mjs";
import { run, tail } from "./run.mjs";

const READY_TIMEOUT_MS = 60_000;
const POLL_MS = 300;
const PID_FILE = "/var/run/docker.pid";

/** Whether systemd runs this host. */
export function hasSystemd() {
  return existsSync("/run/systemd/system");
}

/**
 * The process id of the engine that has the default socket, undefined when none runs.
 * @param {string} [pidFile]
 * @returns {number | undefined}
 */
export function runningEnginePid(pidFile = PID_FILE) {
  if (!existsSync(pidFile)) return undefined;
  const pid = Number.parseInt(readFileSync(pidFile, "utf8"), 10);
  return pid > 0 && readProcess(pid)?.name === "dockerd" ? pid : undefined;
}

/**
 * Waits until an engine answers at the default socket; undefined when `isAlive` says no first or the time is over.
 * @param {() => boolean} isAlive
 */
export async function waitForEngine(isAlive) {
  const end = Date.now() + READY_TIMEOUT_MS;
  while (Date.now() < end) {
    const alive = isAlive();
    const attempt = await probeEngine(defaultEndpoint);
    if (attempt.finding === "engine") return attempt;
    if (!alive) return undefined;
    await sleep(POLL_MS);
  }
  return undefined;
}

/** Starts docker.service. Throws with what systemd has to say. */
export async function startWithSystemd() {
  const result = await run("systemctl", ["start", "docker"], { timeoutMs: 2 * READY_TIMEOUT_MS });
  const engine = await waitForEngine(() => result.code === 0);
  if (engine !== undefined) return engine;
  const status = await run("systemctl", ["status", "docker", "--no-pager", "-n", "20"], {
    timeoutMs: 10_000,
  });
  throw new Error(
    `systemctl start docker gave no engine that answers:\n${tail(`${result.output}\n${status.output}`)}`,
  );
}

/**
 * Starts dockerd in a session of its own: Ctrl-C in this terminal does not reach it. Throws with the end of its log.
 * @param {{ logDirectory: string }} options
 * @returns {Promise<{ engine: import("./engine.mjs").Attempt, pid: number, logFile: string }>}
 */
export async function startDetached({ logDirectory }) {
  const program = findProgram("dockerd");
  if (program === undefined) throw new Error("dockerd is not installed");
  // A file left from before a reboot may carry the number of some other process, which stops dockerd from starting.
  if (runningEnginePid() === undefined) rmSync(PID_FILE, { force: true });
  mkdirSync(logDirectory, { recursive: true, mode: 0o700 });
  const logFile = join(logDirectory, "dockerd.log");
  const output = openSync(logFile, "a", 0o640);
  const child = spawn(program, [], {
    cwd: "/",
    detached: true,
    env: engineEnvironment(process.env),
    stdio: ["ignore", output, output],
  });
  closeSync(output);
  let ended = false;
  child.once("error", () => (ended = true));
  child.once("exit", () => (ended = true));
  const engine = await waitForEngine(() => !ended);
  if (engine !== undefined && child.pid !== undefined && !ended) {
    child.unref();
    return { engine, pid: child.pid, logFile };
  }
  const why = ended ? "ended" : `did not answer within ${String(READY_TIMEOUT_MS / 1000)} s`;
  child.kill("SIGTERM");
  child.unref();
  throw new Error(`dockerd ${why}, its log is ${logFile}:\n${tail(readFileSync(logFile, "utf8"))}`);
}

/**
 * The environment without what npm and Node.js put into it for their own children, and `npm start` for Node.js.
 * @param {NodeJS.ProcessEnv} env
 * @returns {NodeJS.ProcessEnv}
 */
export function engineEnvironment(env) {
  const kept = Object.entries(env).filter(
    ([name]) => !/^(npm_|NODE|MALLOC_|INIT_CWD$|DOCKER_HOST$)/.test(name),
  );
  return { ...Object.fromEntries(kept), PATH: systemPath };
}
