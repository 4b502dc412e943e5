/**
 * Single programs out of the distribution's packages, unpacked below the checkout's .cache: nothing is installed, no
 * service is started, no root is needed, and there is nothing to undo.
 */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { aptEnvironment, hasDebianPackages } from "./install.mjs";
import { run, tail } from "./run.mjs";

const UPDATE_TIMEOUT_MS = 5 * 60_000;
const DOWNLOAD_TIMEOUT_MS = 5 * 60_000;
const UNPACK_TIMEOUT_MS = 60_000;

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
    const archive = join(work, await download(name, work, cacheDirectory));
    const files = join(work, "files");
    await must("dpkg-deb", ["-x", archive, files], { timeoutMs: UNPACK_TIMEOUT_MS });
    // Another run may have been faster: its files are as good.
    if (!existsSync(folder)) renameSync(files, folder);
    return folder;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/**
 * Downloads by the host's package lists; where these are empty or old, by lists of our own.
 * @param {string} name
 * @param {string} work
 * @param {string} cacheDirectory
 * @returns {Promise<string>} the archive's file name in `work`
 */
async function download(name, work, cacheDirectory) {
  const args = ["download", "-o", "APT::Sandbox::User=root", name];
  const first = await run("apt-get", args, {
    cwd: work,
    env: aptEnvironment(),
    timeoutMs: DOWNLOAD_TIMEOUT_MS,
  });
  if (first.code !== 0) {
    const configuration = privateLists(join(cacheDirectory, "apt"));
    const env = { ...aptEnvironment(), APT_CONFIG: configuration };
    await must("apt-get", ["update"], { cwd: work, env, timeoutMs: UPDATE_TIMEOUT_MS });
    await must("apt-get", args, { cwd: work, env, timeoutMs: DOWNLOAD_TIMEOUT_MS });
  }
  const archive = readdirSync(work).find((file) => file.endsWith(".deb"));
  if (archive === undefined) throw new Error(`get package ${name}: apt-get download left no file`);
  return archive;
}

/**
 * An apt configuration that keeps lists and cache below `folder`, beside the host's own settings.
 * @param {string} folder
 */
function privateLists(folder) {
  mkdirSync(join(folder, "lists", "partial"), { recursive: true });
  mkdirSync(join(folder, "cache", "archives", "partial"), { recursive: true });
  const file = join(folder, "apt.conf");
  const lines = [
    `Dir::State::lists "${join(folder, "lists")}";`,
    `Dir::Cache "${join(folder, "cache")}";`,
    'APT::Sandbox::User "root";',
  ];
  writeFileSync(file, `${lines.join("\n")}\n`);
  return file;
}

/**
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv, timeoutMs: number }} options
 */
async function must(command, args, options) {
  const result = await run(command, args, options);
  if (result.code === 0) return;
  const how = result.timedOut ? "took too long" : `ended with code ${String(result.code)}`;
  throw new Error(`${[command, ...args].join(" ")} ${how}:\n${tail(result.output)}`);
}
