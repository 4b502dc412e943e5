/** What a test run builds once, so that its many processes need not: a start of tsx and of all modules takes seconds. */
import { build, stop } from "esbuild";
import { mkdtempSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { filesBelow, isBuilt } from "./build.mjs";
import { programOptions } from "./bundle.mjs";
import { builtMain, cacheDirectory } from "./paths.mjs";

/**
 * Program and tests find files by their own place, which is that of their source. Scripts, which are JavaScript already, are
 * imported from theirs.
 * @param {string} root
 * @returns {import("esbuild").Plugin}
 */
function ownPlaces(root) {
  const scripts = pathToFileURL(join(root, "scripts")).href;
  return {
    name: "own-places",
    setup({ onLoad }) {
      onLoad({ filter: /\.ts$/ }, ({ path }) => {
        const text = readFileSync(path, "utf8");
        const url = JSON.stringify(pathToFileURL(path).href);
        const contents = text
          .replaceAll("import.meta.url", url)
          .replaceAll(/"(?:\.\.\/)+scripts\//g, `"${scripts}/`);
        return { contents, loader: "ts" };
      });
    },
  };
}

/** No run takes that long: its process is another one with the same number. */
const oldestMs = 86_400_000;

/** Removes the builds of runs that were killed; those of runs that go on have their process. @param {string} cache */
export function sweepBuilds(cache) {
  for (const name of readdirSync(cache)) {
    const [, pid] = /^test-build-(\d+)-/.exec(name) ?? [];
    if (pid === undefined) continue;
    const path = join(cache, name);
    // Another run may have removed it just now.
    const { mtimeMs = Infinity } = statSync(path, { throwIfNoEntry: false }) ?? {};
    if (!isAlive(Number(pid)) || mtimeMs < Date.now() - oldestMs)
      rmSync(path, { recursive: true, force: true });
  }
}

/** @param {number} pid */
function isAlive(pid) {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return /** @type {{ code?: string }} */ (error).code === "EPERM";
  }
}

/**
 * Works with the program as one file, which is that of dist when it is current, and with a directory that has each module of
 * the sources and tests as JavaScript, at its path. Both go away afterwards.
 * @template T
 * @param {string} root
 * @param {(built: { main: string, modules: string }) => Promise<T>} work
 */
export async function withTestBuild(root, work) {
  mkdirSync(cacheDirectory, { recursive: true });
  sweepBuilds(cacheDirectory);
  const directory = mkdtempSync(join(cacheDirectory, `test-build-${String(process.pid)}-`));
  try {
    const isCurrent = isBuilt(root);
    const main = isCurrent ? builtMain : join(directory, "dockershim.cjs");
    const modules = ["src", "checkpoints", "test", "bench"].flatMap((folder) => filesBelow(root, folder));
    await Promise.all([
      isCurrent || build({ ...programOptions(root), entryPoints: ["src/main/run.ts"], outfile: main }),
      build({
        absWorkingDir: root,
        entryPoints: modules.filter((path) => path.endsWith(".ts")),
        outdir: directory,
        outbase: root,
        format: "esm",
        target: "node20.9",
        sourcemap: true,
        sourcesContent: false,
        logLevel: "error",
        plugins: [ownPlaces(root)],
      }),
    ]).finally(stop);
    return await work({ main, modules: directory });
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
