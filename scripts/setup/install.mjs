/**
 * Packages of the distribution, on Debian and its relatives: installs the engine and what tests of networks need, and unpacks
 * single programs below the checkout's .cache, which installs nothing, starts no service, needs no root and leaves nothing to undo.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs"; // prettier-ignore
import { delimiter, join } from "node:path";
import { howItEnded, run, tail } from "./run.mjs";

const MINUTE_MS = 60_000;
/** The standard CNI plugins, where packages put them. */
const CNI_DIRECTORIES = ["/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"];
const LOCK_WAIT = ["-o", "DPkg::Lock::Timeout=120"];
const RECORD = "setup.json";

/** System programs live in sbin, which the PATH of a user's shell may lack. */
export const systemPath = [process.env["PATH"], "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"]
  .filter((part) => part !== undefined && part !== "")
  .join(delimiter);

const aptEnvironment = {
  ...process.env,
  ...{ PATH: systemPath, DEBIAN_FRONTEND: "noninteractive", LC_ALL: "C.UTF-8" },
};

/**
 * The path of a program, undefined when there is none.
 * @param {string} name
 * @returns {string | undefined}
 */
export function findProgram(name) {
  return systemPath
    .split(delimiter)
    .map((folder) => join(folder, name))
    .find((file) => existsSync(file));
}

/**
 * Whether an os-release file is that of Debian or a distribution made from it.
 * @param {string} osRelease the file's text
 */
export function isDebianLike(osRelease) {
  return /^(?:ID|ID_LIKE)=(?:|.*["' ])(?:debian|ubuntu)(?:["' ]|$)/m.test(osRelease);
}

/** Whether this host has the packages that `enginePackages` names. */
export function hasDebianPackages() {
  const osRelease = existsSync("/etc/os-release") ? readFileSync("/etc/os-release", "utf8") : "";
  const isDebian = existsSync("/etc/debian_version") || isDebianLike(osRelease);
  return isDebian && findProgram("apt-get") !== undefined;
}

function hasNetworkPlugins() {
  return CNI_DIRECTORIES.some((folder) => existsSync(join(folder, "bridge")));
}

/**
 * The packages that an engine with CNI networks needs here. An engine that is there already, from whatever source,
 * is left as it is: docker.io would replace Docker's own packages.
 */
export function enginePackages() {
  // Where the kernel enforces AppArmor, Docker 20.10 starts no container without its parser.
  const appArmor = "/sys/module/apparmor/parameters/enabled";
  const hasAppArmor = existsSync(appArmor) && readFileSync(appArmor, "utf8").startsWith("Y");
  return [
    ...(findProgram("dockerd") === undefined ? ["docker.io"] : []),
    ...["iptables", "ca-certificates"],
    ...(hasNetworkPlugins() ? [] : ["containernetworking-plugins"]),
    ...(hasAppArmor ? ["apparmor"] : []),
  ];
}

/**
 * What the set-up did to this host, kept so that later starts can still say how to undo it.
 * @typedef {{ pid: number, startTime: string, logFile: string }} StartedEngine `startTime` in clock ticks since the
 *   boot, so that a number used again is not taken for the same process
 * @typedef {{ installedPackages: string[], engine?: StartedEngine }} SetupRecord
 */

/**
 * An empty record when there is none, or none that can be read.
 * @param {string} directory
 * @returns {SetupRecord}
 */
export function readRecord(directory) {
  try {
    const { installedPackages, engine } = JSON.parse(readFileSync(join(directory, RECORD), "utf8"));
    const names = Array.isArray(installedPackages)
      ? installedPackages.filter((name) => typeof name === "string")
      : [];
    const isEngine = typeof engine?.pid === "number" && typeof engine.startTime === "string";
    return { installedPackages: names, ...(isEngine ? { engine } : {}) };
  } catch {
    return { installedPackages: [] };
  }
}

/** @param {string} directory @param {SetupRecord} record */
export function writeRecord(directory, record) {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const temporary = join(directory, `.${RECORD}.${String(process.pid)}`);
  writeFileSync(temporary, `${JSON.stringify(record, undefined, 2)}\n`);
  renameSync(temporary, join(directory, RECORD));
}

/**
 * The packages among `names` that are not installed.
 * @param {readonly string[]} names
 */
export async function missingAmong(names) {
  const args = ["-W", "-f", "${Package} ${db:Status-Status}\n", ...names];
  const installed = (await run("dpkg-query", args, { timeoutMs: 30_000 })).output.split("\n");
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
    await installPackages({ packages, logFile: join(stateDirectory, "setup-packages.log"), log });
  } finally {
    const failed = await missingAmong(missing);
    const installedPackages = all.filter((name) => !failed.includes(name));
    writeRecord(stateDirectory, { ...record, installedPackages });
  }
}

/**
 * One more try when something fails, because mirrors do. Nothing is ever removed for the packages.
 * @param {{ packages: readonly string[], logFile: string, log: (line: string) => void }} options
 */
async function installPackages({ packages, logFile, log }) {
  const env = aptEnvironment;
  const install = ["install", "-y", "--no-install-recommends"];
  log(`running apt-get update and apt-get ${[...install, ...packages].join(" ")}`);
  for (let attempt = 1; ; attempt += 1) {
    const update = await run("apt-get", ["update", ...LOCK_WAIT], { env, timeoutMs: 5 * MINUTE_MS });
    const args = [...install, "--no-remove", ...LOCK_WAIT, ...packages];
    const result = await run("apt-get", args, { env, timeoutMs: 15 * MINUTE_MS });
    writeFileSync(logFile, `${update.output}\n${result.output}`);
    if (result.code === 0) return;
    if (attempt === 2) {
      const complaints = update.output.split("\n").filter((line) => /^(E|W|Err):?/.test(line));
      const output = [...complaints, ...result.output.split("\n").slice(-20)].join("\n");
      const where = `all of its output is in ${logFile}`;
      throw new Error(`apt-get install ${howItEnded(result)}, ${where}:\n${tail(output, 30)}`);
    }
    log(`apt-get install ${howItEnded(result)}, trying once more`);
  }
}

/** The programs with which the tests of pod networks work, beside those that come with the engine, by their packages. */
const networkPrograms = {
  iproute2: ["ip", "tc"],
  iptables: ["iptables"],
  ebtables: ["ebtables"],
  procps: ["sysctl"],
  conntrack: ["conntrack"],
};

/**
 * Installs what is missing; returns why something still is, undefined when nothing is. Tests that miss a program are
 * left out and say so themselves.
 * @param {{ allowSetup: boolean, stateDirectory: string, log: (line: string) => void }} options
 * @returns {Promise<string | undefined>}
 */
export async function ensureNetworkTools({ allowSetup, stateDirectory, log }) {
  const packages = Object.entries(networkPrograms)
    .filter(([, programs]) => programs.some((program) => findProgram(program) === undefined))
    .map(([name]) => name);
  if (!hasNetworkPlugins()) packages.push("containernetworking-plugins");
  if (packages.length === 0) return undefined;
  const missing = `missing: ${packages.join(" ")}`;
  if (!allowSetup) return `${missing}; installing is forbidden (--no-setup)`;
  if (process.getuid?.() !== 0 || !hasDebianPackages()) return `${missing}; install them by hand`;
  try {
    log(`the tests of pod networks need ${packages.join(" ")}`);
    await installAndRecord({ packages, stateDirectory, log });
    return undefined;
  } catch (error) {
    return `${missing}; ${error instanceof Error ? error.message : String(error)}`;
  }
}

/**
 * The path of docker-registry, with which the tests of pulls work: the host's, else that of the distribution's package, unpacked.
 * Installing the package would also start a service on port 5000. An empty path and the reason when there is none.
 * @param {{ cacheDirectory: string, allowDownload: boolean, log: (line: string) => void }} options
 * @returns {Promise<{ path: string, reason: string }>}
 */
export async function findRegistry({ cacheDirectory, allowDownload, log }) {
  const name = "docker-registry";
  const unpacked = join(cacheDirectory, "packages", name, "usr", "bin", name);
  const found = findProgram(name) ?? (existsSync(unpacked) ? unpacked : undefined);
  if (found !== undefined) return { path: found, reason: "" };
  if (!allowDownload) return { path: "", reason: `getting the package ${name} is forbidden (--no-setup)` };
  try {
    await unpackedPackage({ name, cacheDirectory, log });
    return { path: unpacked, reason: "" };
  } catch (error) {
    return { path: "", reason: error instanceof Error ? error.message : String(error) };
  }
}

/**
 * The folder with the unpacked files of a package; downloads it when it is not there. Throws with the reason.
 * @param {{ name: string, cacheDirectory: string, log: (line: string) => void }} options
 * @returns {Promise<string>}
 */
export async function unpackedPackage({ name, cacheDirectory, log }) {
  const folder = join(cacheDirectory, "packages", name);
  if (existsSync(folder)) return folder;
  if (!hasDebianPackages()) throw new Error(`get package ${name}: this host has no Debian packages`);
  log(`unpacking the distribution's package ${name} into ${folder} (it is not installed) ...`);
  mkdirSync(join(cacheDirectory, "packages"), { recursive: true });
  const work = mkdtempSync(join(cacheDirectory, "packages", `.${name}-`));
  try {
    await download(name, work, cacheDirectory);
    const archive = readdirSync(work).find((file) => file.endsWith(".deb"));
    if (archive === undefined) throw new Error(`get package ${name}: apt-get download left no file`);
    await must("dpkg-deb", ["-x", archive, "files"], work);
    // Another run may have been faster: its files are as good.
    if (!existsSync(folder)) renameSync(join(work, "files"), folder);
    return folder;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/**
 * By the host's package lists; where these are empty or old, by lists of our own.
 * @param {string} name
 * @param {string} work
 * @param {string} cacheDirectory
 */
async function download(name, work, cacheDirectory) {
  const asRoot = ["-o", "APT::Sandbox::User=root"];
  const args = ["download", ...asRoot, name];
  const first = await run("apt-get", args, { cwd: work, env: aptEnvironment, timeoutMs: 5 * MINUTE_MS });
  if (first.code === 0) return;
  const [lists, cache] = ["lists", "cache"].map((each) => join(cacheDirectory, "apt", each));
  mkdirSync(join(lists ?? "", "partial"), { recursive: true });
  mkdirSync(join(cache ?? "", "archives", "partial"), { recursive: true });
  const own = ["-o", `Dir::State::lists=${lists}`, "-o", `Dir::Cache=${cache}`];
  await must("apt-get", ["update", ...asRoot, ...own], work);
  await must("apt-get", [...args, ...own], work);
}

/** @param {string} command @param {readonly string[]} args @param {string} cwd */
async function must(command, args, cwd) {
  const result = await run(command, args, { cwd, env: aptEnvironment, timeoutMs: 5 * MINUTE_MS });
  if (result.code !== 0)
    throw new Error(`${[command, ...args].join(" ")} ${howItEnded(result)}:\n${tail(result.output)}`);
}
