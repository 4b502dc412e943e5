/**
 * What the set-up did to this host, kept so that later starts can still say how to undo it: setup.json in the host's
 * state directory.
 */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/**
 * @typedef {{ pid: number, startTime: string, logFile: string }} StartedEngine `startTime` in clock ticks since the
 *   boot, so that a number used again is not taken for the same process
 * @typedef {{ installedPackages: string[], engine?: StartedEngine }} SetupRecord
 */

const FILE = "setup.json";

/**
 * An empty record when there is none, or none that can be read.
 * @param {string} directory
 * @returns {SetupRecord}
 */
export function readRecord(directory) {
  try {
    const value = /** @type {Partial<SetupRecord> | null} */ (
      JSON.parse(readFileSync(join(directory, FILE), "utf8"))
    );
    const packages = Array.isArray(value?.installedPackages) ? value.installedPackages : [];
    const installedPackages = packages.filter((name) => typeof name === "string");
    const engine = value?.engine;
    const isEngine = typeof engine?.pid === "number" && typeof engine.startTime === "string";
    return isEngine ? { installedPackages, engine } : { installedPackages };
  } catch {
    return { installedPackages: [] };
  }
}

/**
 * @param {string} directory
 * @param {SetupRecord} record
 */
export function writeRecord(directory, record) {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const temporary = join(directory, `.${FILE}.${String(process.pid)}`);
  writeFileSync(temporary, `${JSON.stringify(record, undefined, 2)}\n`);
  renameSync(temporary, join(directory, FILE));
}

/**
 * The name and start time of a process, undefined when there is no such process.
 * @param {number} pid
 * @returns {{ name: string, startTime: string } | undefined}
 */
export function readProcess(pid) {
  try {
    const stat = readFileSync(`/proc/${String(pid)}/stat`, "utf8");
    // The name stands in parentheses and may hold anything, also a parenthesis: fields begin after the last one.
    const end = stat.lastIndexOf(")");
    const fields = stat.slice(end + 2).split(" ");
    return { name: stat.slice(stat.indexOf("(") + 1, end), startTime: fields[19] ?? "" };
  } catch {
    return undefined;
  }
}

/**
 * Whether the engine of the record is the process that runs now.
 * @param {StartedEngine | undefined} engine
 * @returns {engine is StartedEngine}
 */
export function stillRuns(engine) {
  if (engine === undefined) return false;
  const found = readProcess(engine.pid);
  return found?.name === "dockerd" && found.startTime === engine.startTime;
}
