/** Gets a Docker Engine for the shim or the tests: finds one that answers, else installs and starts one. */
import { defaultEndpoint, probeEngine } from "./engine.mjs";
import {
  enginePackages,
  findProgram,
  hasDebianPackages,
  installAndRecord,
  missingAmong,
} from "./install.mjs";
import { readProcess, readRecord, stillRuns, writeRecord } from "./record.mjs";
import {
  hasSystemd,
  runningEnginePid,
  startDetached,
  startWithSystemd,
  waitForEngine,
} from "./start-engine.mjs";

/**
 * @typedef {import("./engine.mjs").Attempt} Attempt
 * @typedef {{ engine: Attempt } | { engine: undefined, reason: string, advice: string[] }} EngineResult `advice` is
 *   what the user can do, one line each
 */

/**
 * Sets an engine up only at the default endpoint: at any other the user has one.
 * @param {{ endpoint: string, allowSetup: boolean, stateDirectory: string, log: (line: string) => void }} options
 * @returns {Promise<EngineResult>}
 */
export async function ensureEngine({ endpoint, allowSetup, stateDirectory, log }) {
  const attempt = await probeEngine(endpoint);
  if (attempt.finding === "engine") return { engine: attempt };
  const obstacle = setupObstacle(attempt, { allowSetup, userId: process.getuid?.() ?? -1 });
  const failed = (/** @type {string} */ reason) => ({
    engine: undefined,
    reason,
    advice: adviceFor(attempt),
  });
  if (obstacle !== undefined) return failed(obstacle);
  if (attempt.finding !== "absent") log(`no engine at ${endpoint}: ${attempt.detail}`);
  try {
    return { engine: await setUpEngine({ stateDirectory, log }) };
  } catch (error) {
    return failed(error instanceof Error ? error.message : String(error));
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
  if (findProgram("dockerd") === undefined && !hasDebianPackages()) {
    return "no Docker Engine answers, and this host has no Debian packages to install one from";
  }
  return undefined;
}

/**
 * @param {{ stateDirectory: string, log: (line: string) => void }} options
 * @returns {Promise<Attempt>}
 */
async function setUpEngine({ stateDirectory, log }) {
  if (runningEnginePid() !== undefined) {
    log("a Docker Engine is running but does not answer yet, waiting for it ...");
    const engine = await waitForEngine(() => runningEnginePid() !== undefined);
    if (engine !== undefined) return engine;
    throw new Error("the Docker Engine that runs does not answer");
  }
  if (hasDebianPackages()) await installMissing({ stateDirectory, log });
  return startEngine({ stateDirectory, log });
}

/** @param {{ stateDirectory: string, log: (line: string) => void }} options */
async function installMissing({ stateDirectory, log }) {
  const missing = await missingAmong(enginePackages());
  if (missing.length === 0) return;
  log("no Docker Engine answers on this host: setting one up from the distribution's packages");
  log(`  to be installed: ${missing.join(" ")}, and what they depend on`);
  log("  to be started:   the Docker Engine, which keeps running afterwards");
  log("  to forbid this:  --no-setup or DOCKERSHIM_NO_SETUP=1");
  await installAndRecord({ packages: missing, stateDirectory, log });
}

/**
 * @param {{ stateDirectory: string, log: (line: string) => void }} options
 * @returns {Promise<Attempt>}
 */
async function startEngine({ stateDirectory, log }) {
  log("starting the Docker Engine ...");
  if (hasSystemd()) return startWithSystemd();
  const record = readRecord(stateDirectory);
  // The package's own init script may have started one a moment ago.
  if (runningEnginePid() !== undefined) {
    const engine = await waitForEngine(() => runningEnginePid() !== undefined);
    const pid = runningEnginePid();
    if (engine !== undefined && pid !== undefined) {
      writeRecord(stateDirectory, { ...record, engine: startedEngine(pid, "/var/log/docker.log") });
      return engine;
    }
  }
  const started = await startDetached({ logDirectory: stateDirectory });
  writeRecord(stateDirectory, { ...record, engine: startedEngine(started.pid, started.logFile) });
  return started.engine;
}

/**
 * @param {number} pid
 * @param {string} logFile
 */
function startedEngine(pid, logFile) {
  return { pid, startTime: readProcess(pid)?.startTime ?? "", logFile };
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
  const { installedPackages, engine } = readRecord(stateDirectory);
  const ours = stillRuns(engine);
  const undo = [];
  if (ours) undo.push(`kill ${String(engine.pid)}   # stops the engine and its containers`);
  else if (hasSystemd() && installedPackages.includes("docker.io"))
    undo.push("systemctl disable --now docker");
  if (installedPackages.length > 0) {
    undo.push(`apt-get purge -y ${installedPackages.join(" ")} && apt-get autoremove --purge -y`);
  }
  return {
    installed: installedPackages,
    engineStartedBy: ours ? "setup" : hasSystemd() ? "systemd" : "other",
    undo,
  };
}
