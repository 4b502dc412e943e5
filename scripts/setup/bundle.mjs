/**
 * Puts the program and the npm packages that it uses into a few files. A start then reads a dozen files in place of six hundred, and
 * the text in memory is without comments and without modules that nothing uses: see docs/performance.md.
 */
import { build, stop } from "esbuild";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { licensesOf } from "./licenses.mjs";

/** What is started, and what the set-up imports; by the file in dist. */
const ENTRY_POINTS = {
  dockershim: "src/shim/main.ts",
  "image-archive": "src/shim/pause/image-archive.ts",
};
/** A stack trace names lines: so they are short, although nobody reads them. */
const LINE_CHARACTERS = 160;

/**
 * docker-modem loads ssh2 for ssh:// endpoints, which the program refuses. It is the third part of all text, and cannot be loaded
 * without its own files beside it.
 * @type {import("esbuild").Plugin}
 */
const withoutSsh = {
  name: "without-ssh",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^ssh2$/ }, ({ path }) => ({ path, namespace: "left-out" }));
    onLoad({ filter: /.*/, namespace: "left-out" }, () => ({ contents: "module.exports = {};" }));
  },
};

/**
 * Throws with all that is wrong with the sources. Types are not looked at.
 * @param {{ root: string, target: string }} options
 */
export async function bundle({ root, target }) {
  try {
    await write(root, target);
  } finally {
    // Else its process lives as long as this one, which goes on as the shim.
    await stop();
  }
}

/**
 * @param {string} root
 * @param {string} target
 */
async function write(root, target) {
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: ENTRY_POINTS,
    outdir: target,
    bundle: true,
    // What is imported when it is needed (commands, YAML, metrics) stays a file of its own.
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node20.9",
    sourcemap: true,
    sourcesContent: false,
    chunkNames: "chunks/[name]-[hash]",
    // Their licenses stand in LICENSES.txt.
    legalComments: "none",
    minifyWhitespace: true,
    minifySyntax: true,
    lineLimit: LINE_CHARACTERS,
    logLevel: "silent",
    plugins: [withoutSsh],
    // CommonJS packages ask for Node.js's own modules at run time.
    banner: { js: 'import{createRequire}from"node:module";const require=createRequire(import.meta.url);' },
    tsconfig: join(root, "tsconfig.json"),
    metafile: true,
  });
  const inputs = Object.values(metafile.outputs).flatMap((output) => Object.keys(output.inputs));
  writeFileSync(join(target, "LICENSES.txt"), licensesOf({ root, inputs }));
}
