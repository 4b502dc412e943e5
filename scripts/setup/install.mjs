/** Installs the engine and the CNI plugins from the distribution's packages, on Debian and its relatives. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { readRecord, writeRecord } from "./record.mjs";
import { run, tail } from "./run.mjs";

/** The standard CNI plugins, where packages put them. */
const CNI_DIRECTORIES = ["/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"];
const UPDATE_TIMEOUT_MS = 5 * 60_000;
const INSTALL_TIMEOUT_MS = 15 * 60_000;
const LOCK_WAIT = ["-o", "DPkg::Lock::Timeout=120"];

/** System programs live in sbin, which the PATH of a user's shell may lack. */
export const systemPath = [process.env["PATH"], "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"]
  .filter((part) => part !== undefined && part !== "")
  .join(delimiter);

/** The environment of apt-get and what it starts. */
export function aptEnvironment() {
  return { ...process.env, PATH: systemPath, DEBIAN_FRONTEND: "noninteractive", LC_ALL: "C.UTF-8" };
}

/**
 * The path of a program, undefined when there is none.
 * @param {string} name
 * @param {string} [path]
 * @returns {string | undefined}
 */
export function findProgram(name, path = systemPath) {
  return path
    .split(delimiter)
    .map((folder) => join(folder, name))
    .find((file) => existsSync(file));
}

/**
 * Whether an os-release file is that of Debian or a distribution made from it.
 * @param {string} osRelease the file's text
 */
export function isDebianLike(osRelease) {
  const values = [...osRelease.matchAll(/^(?:ID|ID_LIKE)=["']?([^"'\n]*)["']?$/gm)].map(
    (match) => match[1] ?? "",
  );
  return values.some((value) => value.split(/\s+/).some((word) => word === "debian" || word === "ubuntu"));
}

/** Whether this host has the packages that `enginePackages` names. */
export function hasDebianPackages() {
  const osRelease = existsSync("/etc/os-release") ? readFileSync("/etc/os-release", "utf8") : "";
  return (
    (existsSync("/etc/debian_version") || isDebianLike(osRelease)) && findProgram("apt-get") !== undefined
  );
}

/** Whether this host has the standard CNI plugins. */
export function hasNetworkPlugins() {
  return CNI_DIRECTORIES.some((folder) => existsSync(join(folder, "bridge")));
}

/**
 * The packages that an engine with CNI networks needs here. An engine that is there already, from whatever source,
 * is left as it is: docker.io would replace Docker's own packages.
 * @returns {string[]}
 */
export function enginePackages() {
  const packages = ["iptables", "ca-certificates"];
  if (findProgram("dockerd") === undefined) packages.unshift("docker.io");
  if (!hasNetworkPlugins()) packages.push("containernetworking-plugins");
  // Where the kernel enforces AppArmor, Docker 20.10 starts no container without its parser.
  const appArmor = "/sys/module/apparmor/parameters/enabled";
  if (existsSync(appArmor) && readFileSync(appArmor, "utf8").startsWith("Y")) packages.push("apparmor");
  return packages;
}

/**
 * The packages among `names` that are not installed.
 * @param {readonly string[]} names
 */
export async function missingAmong(names) {
  const args = ["-W", "-f", "${Package} ${db:Status-Status}\n", ...names];
  const { output } = await run("dpkg-query", args, { timeoutMs: 30_000 });
  const installed = output.split("\n");
  return names.filter((name) => !installed.includes(`${name} installed`));
}

/**
 * Installs packages and records those that were not there before. Throws with the end of apt's output.
 * @param {{ packages: readonly string[], stateDirectory: string, log: (line: string) => void }} options
 */
export async function installAndRecord({ packages, stateDirectory, log }) {
  const missing = await missingAmong(packages);
  const record = readRecord(stateDirectory);
  const all = [...new Set([...record.installedPackages, ...missing])];
  // Written first: an installation that is cut off can be undone all the same.
  writeRecord(stateDirectory, { ...record, installedPackages: all });
  try {
    await installPackages({ packages, logDirectory: stateDirectory, log });
  } finally {
    const failed = await missingAmong(missing);
    writeRecord(stateDirectory, {
      ...record,
      installedPackages: all.filter((name) => !failed.includes(name)),
    });
  }
}

/**
 * Installs packages with apt-get; one more try when something fails, because mirrors do. Nothing is ever removed
 * for them. Throws with the end of apt's output.
 * @param {{ packages: readonly string[], logDirectory: string, log: (line: string) => void }} options
 */
async function installPackages({ packages, logDirectory, log }) {
  const env = aptEnvironment();
  const logFile = join(logDirectory, "setup-packages.log");
  mkdirSync(logDirectory, { recursive: true, mode: 0o700 });
  const install = ["install", "-y", "--no-install-recommends", "--no-remove", ...LOCK_WAIT, ...packages];
  log(
    `running apt-get update and apt-get ${["install", "-y", "--no-install-recommends", ...packages].join(" ")}`,
  );
  for (let attempt = 1; ; attempt += 1) {
    const update = await run("apt-get", ["update", ...LOCK_WAIT], { env, timeoutMs: UPDATE_TIMEOUT_MS });
    const result = await run("apt-get", install, { env, timeoutMs: INSTALL_TIMEOUT_MS });
    writeFileSync(logFile, `${update.output}\n${result.output}`);
    if (result.code === 0) return;
    const how = result.timedOut ? "took too long" : `ended with code ${String(result.code)}`;
    if (attempt === 2) {
      const complaints = update.output.split("\n").filter((line) => /^(E|W|Err):?/.test(line));
      const output = [...complaints, ...result.output.split("\n").slice(-20)].join("\n");
      throw new Error(`apt-get install ${how}, all of its output is in ${logFile}:\n${tail(output, 30)}`);
    }
    log(`apt-get install ${how}, trying once more`);
  }
}
