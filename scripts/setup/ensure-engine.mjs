/**
 * Gets a Docker Engine for the shim or the tests: finds one that answers, else installs one, and starts it by systemd where that is
 * the init system, else as a process of its own.
 */
import { spawn } from "node:child_process";
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { defaultEndpoint, probeEngine } from "./engine.mjs";
import {
  enginePackages,
  findProgram,
  hasDebianPackages,
  installAndRecord,
  missingAmong,
  readRecord,
  systemPath,
  writeRecord,
} from "./install.mjs";
import { run, tail } from "./run.mjs";

const READY_TIMEOUT_MS = 60_000;
const POLL_MS = 300;
const PID_FILE = "/var/run/docker.pid";

/**
 * @typedef {import("./engine.mjs").Attempt} Attempt
 * @typedef {{ stateDirectory: string, log: (line: string) => void }} SetupOptions
 * @typedef {{ engine: Attempt } | { engine: undefined, reason: string, advice: string[] }} EngineResult `advice` is
 *   what the user can do, one line each
 */

/**
 * Sets an engine up only at the default endpoint: at any other the user has one.
 * @param {{ endpoint: string, allowSetup: boolean } & SetupOptions} options
 * @returns {Promise<EngineResult>}
 */
export async function ensureEngine({ endpoint, allowSetup, stateDirectory, log }) {
  const attempt = await probeEngine(endpoint);
  if (attempt.finding === "engine") return { engine: attempt };
  const advice = adviceFor(attempt);
  const reason = setupObstacle(attempt, { allowSetup, userId: process.getuid?.() ?? -1 });
  if (reason !== undefined) return { engine: undefined, reason, advice };
  if (attempt.finding !== "absent") log(`no engine at ${endpoint}: ${attempt.detail}`);
  try {
    return { engine: await setUpEngine({ stateDirectory, log }) };
  } catch (error) {
    return { engine: undefined, reason: error instanceof Error ? error.message : String(error), advice };
  }
}

/**
 * Why nothing may or can be set up, undefined when it can.
 * @param {Attempt} attempt
 * @param {{ allowSetup: boolean, userId: number }} rights
 * @returns {string | undefined}
 */
export function setupObstacle({ endpoint, finding, detail }, { allowSetup, userId }) {
  // Another program has the socket: an engine of another user, or of a host that lent its socket to this container.
  if (endpoint !== defaultEndpoint || finding === "denied" || finding === "foreign")
    return `no Docker Engine at ${endpoint}: ${detail}`;
  if (finding === "silent" && runningEnginePid() === undefined)
    return `the program behind ${endpoint} does not answer`;
  if (!allowSetup) return "no Docker Engine answers, and setting one up is forbidden (--no-setup)";
  if (process.platform !== "linux") return "no Docker Engine answers, and one can be set up on Linux only";
  if (userId !== 0) return "no Docker Engine answers, and only root can set one up";
  if (findProgram("dockerd") === undefined && !hasDebianPackages())
    return "no Docker Engine answers, and this host has no Debian packages to install one from";
  return undefined;
}

/** @param {SetupOptions} options @returns {Promise<Attempt>} */
async function setUpEngine({ stateDirectory, log }) {
  if (runningEnginePid() !== undefined) {
    log("a Docker Engine is running but does not answer yet, waiting for it ...");
    const engine = await waitForEngine(() => runningEnginePid() !== undefined);
    if (engine !== undefined) return engine;
    throw new Error("the Docker Engine that runs does not answer");
  }
  const missing = hasDebianPackages() ? await missingAmong(enginePackages()) : [];
  if (missing.length > 0) {
    log("no Docker Engine answers on this host: setting one up from the distribution's packages");
    log(`  to be installed: ${missing.join(" ")}, and what they depend on`);
    log("  to be started:   the Docker Engine, which keeps running afterwards");
    log("  to forbid this:  --no-setup or DOCKERSHIM_NO_SETUP=1");
    await installAndRecord({ packages: missing, stateDirectory, log });
  }
  log("starting the Docker Engine ...");
  if (hasSystemd()) return startWithSystemd();
  // The package's own init script may have started one a moment ago.
  const isStarting = () => runningEnginePid() !== undefined;
  const byScript = isStarting() ? await waitForEngine(isStarting) : undefined;
  const logFile = byScript === undefined ? join(stateDirectory, "dockerd.log") : "/var/log/docker.log";
  const { engine, pid } =
    byScript === undefined ? await startDetached(logFile) : { engine: byScript, pid: runningEnginePid() };
  if (pid !== undefined) {
    const startTime = readProcess(pid)?.startTime ?? "";
    writeRecord(stateDirectory, { ...readRecord(stateDirectory), engine: { pid, startTime, logFile } });
  }
  return engine;
}

/** Whether systemd runs this host. */
function hasSystemd() {
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
 * The name and start time of a process, undefined when there is no such process.
 * @param {number} pid
 * @returns {{ name: string, startTime: string } | undefined}
 */
export function readProcess(pid) {
  try {
    // The name is in parentheses and may hold anything, also a parenthesis: fields begin after the last one.
    const stat = /^\d+ \((.*)\) (.*)$/s.exec(readFileSync(`/proc/${String(pid)}/stat`, "utf8"));
    return stat === null ? undefined : { name: stat[1] ?? "", startTime: stat[2]?.split(" ")[19] ?? "" };
  } catch {
    return undefined;
  }
}

/**
 * Whether the engine of the record is the process that runs now.
 * @param {import("./install.mjs").StartedEngine | undefined} engine
 * @returns {engine is import("./install.mjs").StartedEngine}
 */
export function stillRuns(engine) {
  if (engine === undefined) return false;
  const found = readProcess(engine.pid);
  return found?.name === "dockerd" && found.startTime === engine.startTime;
}

/**
 * Waits until an engine answers at the default socket; undefined when `isAlive` says no first or the time is over.
 * @param {() => boolean} isAlive
 */
async function waitForEngine(isAlive) {
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
async function startWithSystemd() {
  const result = await run("systemctl", ["start", "docker"], { timeoutMs: 2 * READY_TIMEOUT_MS });
  const engine = await waitForEngine(() => result.code === 0);
  if (engine !== undefined) return engine;
  const words = ["status", "docker", "--no-pager", "-n", "20"];
  const status = await run("systemctl", words, { timeoutMs: 10_000 });
  const output = tail(`${result.output}\n${status.output}`);
  throw new Error(`systemctl start docker gave no engine that answers:\n${output}`);
}

/**
 * Starts dockerd in a session of its own: Ctrl-C in this terminal does not reach it. Throws with the end of its log.
 * @param {string} logFile
 */
async function startDetached(logFile) {
  const program = findProgram("dockerd");
  if (program === undefined) throw new Error("dockerd is not installed");
  // A file left from before a reboot may carry the number of some other process, which stops dockerd from starting.
  if (runningEnginePid() === undefined) rmSync(PID_FILE, { force: true });
  mkdirSync(join(logFile, ".."), { recursive: true, mode: 0o700 });
  const output = openSync(logFile, "a", 0o640);
  const env = engineEnvironment(process.env);
  const child = spawn(program, [], { cwd: "/", detached: true, env, stdio: ["ignore", output, output] });
  closeSync(output);
  child.unref();
  let ended = false;
  child.once("error", () => (ended = true)).once("exit", () => (ended = true));
  const engine = await waitForEngine(() => !ended);
  if (engine !== undefined && !ended) return { engine, pid: child.pid };
  const why = ended ? "ended" : `did not answer within ${String(READY_TIMEOUT_MS / 1000)} s`;
  child.kill("SIGTERM");
  throw new Error(`dockerd ${why}, its log is ${logFile}:\n${tail(readFileSync(logFile, "utf8"))}`);
}

/**
 * The environment without what npm and Node.js put into it for their own children, and `npm start` for Node.js.
 * @param {NodeJS.ProcessEnv} env
 * @returns {NodeJS.ProcessEnv}
 */
export function engineEnvironment(env) {
  const foreign = /^(npm_|NODE|MALLOC_|INIT_CWD$|DOCKER_HOST$)/;
  const kept = Object.entries(env).filter(([name]) => !foreign.test(name));
  return { ...Object.fromEntries(kept), PATH: systemPath };
}

/**
 * What to type, for a host where nothing was set up.
 * @param {Attempt} attempt
 * @returns {string[]}
 */
export function adviceFor({ endpoint, finding }) {
  if (finding === "denied")
    return ["run it as root: sudo npm start, or name another engine: --docker-endpoint"];
  const asRoot = process.getuid?.() === 0 ? "" : "sudo ";
  if (finding === "silent" || finding === "foreign") {
    const restart = hasSystemd()
      ? `${asRoot}systemctl restart docker`
      : "end that program, then run this again";
    return [`nothing was changed, because ${endpoint} is in use: ${restart}`];
  }
  const start = hasSystemd() ? `${asRoot}systemctl start docker` : `${asRoot}dockerd`;
  const name = "an engine elsewhere: npm start -- --docker-endpoint unix:///path/to/docker.sock";
  if (process.platform !== "linux") return ["start Docker Desktop", name];
  if (findProgram("dockerd") !== undefined) return [`start the engine: ${start}`, name];
  const packages = enginePackages().join(" ");
  const install = hasDebianPackages()
    ? `${asRoot}apt-get update && ${asRoot}apt-get install -y --no-install-recommends ${packages}`
    : "install Docker Engine 20.10 or later and the CNI plugins with this system's package manager";
  return [`install an engine: ${install}`, `start it: ${start}`, name];
}

/**
 * What the set-up left on this host and how to take it away again.
 * @param {string} stateDirectory
 * @returns {{ installed: string[], engineStartedBy: "setup" | "systemd" | "other", undo: string[] }}
 */
export function setupFootprint(stateDirectory) {
  const { installedPackages: installed, engine } = readRecord(stateDirectory);
  const ours = stillRuns(engine);
  const undo = [];
  if (ours) undo.push(`kill ${String(engine.pid)}   # stops the engine and its containers`);
  else if (hasSystemd() && installed.includes("docker.io")) undo.push("systemctl disable --now docker");
  if (installed.length > 0)
    undo.push(`apt-get purge -y ${installed.join(" ")} && apt-get autoremove --purge -y`);
  return { installed, engineStartedBy: ours ? "setup" : hasSystemd() ? "systemd" : "other", undo };
}
