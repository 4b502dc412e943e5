/** Writes V8's code caches for the programs of dist, for the Node.js that builds. Without them they start more slowly. */
import { build } from "esbuild";
import { existsSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run, tail } from "./run.mjs";

const TRAINING_TIMEOUT_MS = 60_000;

/** @param {{ root: string, target: string, common: import("esbuild").BuildOptions, log: (line: string) => void }} options */
export async function writeCaches({ root, target, common, log }) {
  const directory = mkdtempSync(join(tmpdir(), "dockershim-build-"));
  try {
    const entryPoints = ["src/main/cached-program.ts", "src/main/v8-flags.ts", "src/client/cri-messages.ts"];
    await build({
      ...common,
      format: "cjs",
      entryPoints,
      outdir: directory,
      outExtension: { ".js": ".cjs" },
      outbase: "src",
    });
    // A server serves on Linux alone.
    const names = process.platform === "linux" ? ["quick", "dockershim"] : ["quick"];
    for (const name of names)
      await train({
        root,
        path: join(target, name),
        parts: directory,
        directory: join(directory, name),
      }).catch((/** @type {Error} */ error) => {
        log(`${name}.cjs will start more slowly: ${error.message}`);
      });
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** @param {{ root: string, path: string, parts: string, directory: string }} input */
async function train({ root, path, parts, directory }) {
  const training = join(root, "scripts", "setup", "code-cache-training.mjs");
  const written = `${path}.cache.next`;
  const argv = [training, parts, path, written, directory];
  // Options of V8 would be part of the cache.
  const env = { ...process.env, NODE_OPTIONS: "" };
  const { code, output } = await run(process.execPath, argv, { env, timeoutMs: TRAINING_TIMEOUT_MS });
  if (code !== 0) throw new Error(`make the code cache of ${path}.cjs: ${tail(output)}`);
  if (existsSync(written)) renameSync(written, `${path}.cache`);
}
