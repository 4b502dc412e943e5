/** Makes dist from src and checkpoints, when a source differs from what dist was made of. */
import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ensureDependencies } from "./dependencies.mjs";
import { run, tail } from "./run.mjs";

const TSC_TIMEOUT_MS = 5 * 60_000;
const SOURCE_FOLDERS = ["src", "checkpoints"];
const CONFIGURATION = [
  "tsconfig.json",
  "tsconfig.build.json",
  "package.json",
  "package-lock.json",
  join("scripts", "setup", "bundle.mjs"),
  join("scripts", "setup", "code-cache-training.mjs"),
];
const STAMP = join("dist", ".build-stamp");

/**
 * All files below a folder, as sorted paths relative to `root`.
 * @param {string} root
 * @param {string} folder
 * @returns {string[]}
 */
export function filesBelow(root, folder) {
  if (!existsSync(join(root, folder))) return [];
  return readdirSync(join(root, folder), { withFileTypes: true })
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) return filesBelow(root, path);
      return entry.isFile() ? [path] : [];
    })
    .sort();
}

/**
 * A hash of everything that dist is made of. Contents, not times: a checkout changes times, a deleted source none.
 * @param {string} root
 */
export function sourceFingerprint(root) {
  const hash = createHash("sha256");
  const sources = SOURCE_FOLDERS.flatMap((folder) => filesBelow(root, folder));
  for (const path of [...CONFIGURATION, ...sources]) {
    const file = join(root, path);
    const content = existsSync(file) ? readFileSync(file) : Buffer.alloc(0);
    hash.update(`${path}\0${String(content.length)}\0`).update(content);
  }
  return hash.digest("hex");
}

/**
 * Whether dist is what the sources say.
 * @param {string} root
 */
export function isBuilt(root) {
  const stamp = join(root, STAMP);
  return existsSync(stamp) && readFileSync(stamp, "utf8").trim() === sourceFingerprint(root);
}

/**
 * Installs the npm packages and builds, each when needed. The new dist takes the old one's place only when the compiler had no complaint. Throws with
 * the compiler's messages.
 * @param {{ root: string, log: (line: string) => void }} options
 */
export async function ensureBuilt({ root, log }) {
  await ensureDependencies({ root, log });
  if (isBuilt(root)) return;
  log("compiling ...");
  const fingerprint = sourceFingerprint(root);
  const next = join(root, "dist.next");
  rmSync(next, { recursive: true, force: true });
  try {
    const compiler = join(root, "node_modules", "typescript-native", "lib", "tsc.js");
    const args = [compiler, "-p", "tsconfig.build.json", "--noEmit"];
    const result = await run(process.execPath, args, { cwd: root, timeoutMs: TSC_TIMEOUT_MS });
    if (result.code !== 0) throw new Error(`the sources do not compile:\n${tail(result.output)}`);
    // esbuild is not there before the npm packages are.
    const { bundle } = await import("./bundle.mjs");
    await bundle({ root, target: next, log });
    writeFileSync(join(next, ".build-stamp"), `${fingerprint}\n`);
    rmSync(join(root, "dist"), { recursive: true, force: true });
    renameSync(next, join(root, "dist"));
  } finally {
    rmSync(next, { recursive: true, force: true });
  }
}
