/** Node.js itself and the npm packages that package-lock.json names. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { howItEnded, run, tail, withoutHosts } from "./run.mjs";

const NPM_CI_TIMEOUT_MS = 15 * 60_000;

/**
 * One clear line when this Node.js is too old to run the program, else undefined. npm would judge by the tools for
 * contributors, too, some of which want a later one.
 * @param {string} version as in process.versions.node
 * @returns {string | undefined}
 */
export function nodeVersionProblem(version) {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major > 20 || (major === 20 && minor >= 9)) return undefined;
  return `Node.js ${version} is too old: dockershim needs Node.js 20.9 or later`;
}

/** @typedef {{ packages?: Record<string, { version?: string, integrity?: string, optional?: boolean, link?: boolean }> }} LockFile */

/**
 * Why node_modules must be installed anew, or undefined when it holds what package-lock.json asks for. npm writes
 * node_modules/.package-lock.json as the last step of an installation, so an interrupted one is noticed, and one
 * that was made by hand is accepted.
 * @param {string} root
 * @returns {string | undefined}
 */
export function outdatedDependencies(root) {
  const installedPath = join(root, "node_modules", ".package-lock.json");
  if (!existsSync(installedPath)) return "node_modules is missing or incomplete";
  const wanted = packagesOf(join(root, "package-lock.json"));
  const installed = packagesOf(installedPath);
  for (const [path, entry] of Object.entries(wanted)) {
    if (path === "" || entry.link === true) continue;
    const have = installed[path];
    // Optional packages are those of other platforms, for the greater part.
    if (have === undefined && entry.optional === true) continue;
    if (
      have?.version !== entry.version ||
      have?.integrity !== entry.integrity ||
      !existsSync(join(root, path))
    ) {
      return `${path} is not as package-lock.json has it`;
    }
  }
  return undefined;
}

/** @param {string} path */
function packagesOf(path) {
  const lock = /** @type {LockFile} */ (JSON.parse(readFileSync(path, "utf8")));
  return lock.packages ?? {};
}

/**
 * Runs `npm ci` when it is needed. Throws with the end of npm's output when that fails, and when this Node.js is too old.
 * @param {{ root: string, log: (line: string) => void }} options
 */
export async function ensureDependencies({ root, log }) {
  const problem = nodeVersionProblem(process.versions.node);
  if (problem !== undefined) throw new Error(problem);
  const reason = outdatedDependencies(root);
  if (reason === undefined) return;
  log(`installing the npm dependencies (${reason}) ...`);
  // TypeScript and esbuild are development dependencies, and esbuild's program for this platform an optional one: NODE_ENV=production
  // and settings of npm would leave them out.
  const args = ["ci", "--no-fund", "--no-audit", "--include=dev", "--include=optional"];
  const npm = process.env["npm_execpath"];
  const isScript = npm !== undefined && /npm-cli\.c?js$/.test(npm);
  const result = await run(isScript ? process.execPath : "npm", isScript ? [npm, ...args] : args, {
    cwd: root,
    timeoutMs: NPM_CI_TIMEOUT_MS,
  });
  if (result.code !== 0)
    throw new Error(`npm ci ${howItEnded(result)}:\n${tail(withoutHosts(result.output))}`);
}
