/**
 * Puts the program and the npm packages that it uses into a few files. A start then reads a dozen files in place of six hundred, and
 * the text in memory is without comments and without modules that nothing uses: see docs/run/performance.md.
 */
import { build, stop } from "esbuild";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { writeQuickBundle } from "./quick-bundle.mjs";

/** What is started, and what the set-up imports; by the file in dist. */
const ENTRY_POINTS = {
  dockershim: "src/main/main.ts",
  "image-archive": "src/shim/pause/image-archive.ts",
};
/** A stack trace names lines: so they are short, although nobody reads them. */
const LINE_CHARACTERS = 160;

/**
 * docker-modem loads ssh2 for ssh:// endpoints, to which the program has its own way. It is the third part of all text, and cannot
 * be loaded without its own files beside it. dockerode loads what builds of images need, with files beside them, too. grpc-js loads
 * proto-loader for services of its own (channelz, ORCA) that the program does not have.
 * @type {import("esbuild").Plugin}
 */
const withoutUnusedParts = {
  name: "without-unused-parts",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^(ssh2|@grpc\/proto-loader)$/ }, ({ path }) => ({ path, namespace: "left-out" }));
    onResolve({ filter: /^\.\/(buildkit|session)$/ }, ({ path, importer }) =>
      /\/dockerode\/lib\/docker\.js$/.test(importer) ? { path, namespace: "left-out" } : undefined,
    );
    onLoad({ filter: /.*/, namespace: "left-out" }, () => ({ contents: "module.exports = {};" }));
  },
};

/**
 * Throws with all that is wrong with the sources. Types are not looked at.
 * @param {{ root: string, target: string, log?: (line: string) => void }} options
 */
export async function bundle({ root, target, log = () => undefined }) {
  try {
    await write(root, target, log);
  } finally {
    // Else its process lives as long as this one, which goes on as the shim.
    await stop();
  }
}

/**
 * What bundles of the program have in common.
 * @param {string} root
 * @returns {import("esbuild").BuildOptions}
 */
export function bundleOptions(root) {
  return {
    absWorkingDir: root,
    bundle: true,
    platform: "node",
    target: "node20.9",
    sourcemap: true,
    sourcesContent: false,
    // Their licenses stand in LICENSES.txt.
    legalComments: "none",
    minifyWhitespace: true,
    minifySyntax: true,
    lineLimit: LINE_CHARACTERS,
    logLevel: "silent",
    plugins: [withoutUnusedParts],
    tsconfig: join(root, "tsconfig.json"),
  };
}

/**
 * @param {string} root
 * @param {string} target
 * @param {(line: string) => void} log
 */
async function write(root, target, log) {
  const common = bundleOptions(root);
  const { metafile } = await build({
    ...common,
    entryPoints: ENTRY_POINTS,
    outdir: target,
    // What is imported when it is needed (commands, YAML, metrics) stays a file of its own.
    splitting: true,
    format: "esm",
    chunkNames: "chunks/[name]-[hash]",
    // CommonJS packages ask for Node.js's own modules at run time.
    banner: {
      js: 'import{createRequire as bannerRequire}from"node:module";const require=bannerRequire(import.meta.url);',
    },
    metafile: true,
  });
  const inChunks = Object.values(metafile.outputs).flatMap((output) => Object.keys(output.inputs));
  const inQuick = await writeQuickBundle({ root, target, common, log });
  writeFileSync(join(target, "LICENSES.txt"), licensesOf({ root, inputs: [...inChunks, ...inQuick] }));
}

/** Up to the name of the innermost package. */
const packageDirectory = /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/;
const licenseFile = /^(?:licen[cs]e|copying|notice)/i;

/**
 * The licenses of npm packages whose code is in the bundle: most of them want their text to go with every copy. One text for all
 * packages that one of `inputs` belongs to, in the order of their directories.
 * @param {{ root: string, inputs: Iterable<string> }} options `inputs`: files, relative to `root`
 */
export function licensesOf({ root, inputs }) {
  /** @type {Set<string>} */
  const directories = new Set();
  for (const input of inputs) {
    const [directory] = packageDirectory.exec(input) ?? [];
    if (directory !== undefined) directories.add(directory);
  }
  return [...directories]
    .sort()
    .map((directory) => licenseOf(join(root, directory)))
    .join("\n");
}

/**
 * A package without such a file names its license in its package.json.
 * @param {string} directory
 */
function licenseOf(directory) {
  const text = readFileSync(join(directory, "package.json"), "utf8");
  const { name, version, license } = /** @type {Record<string, unknown>} */ (JSON.parse(text));
  const files = readdirSync(directory)
    .filter((file) => licenseFile.test(file))
    .sort()
    .map((file) => `\n${readFileSync(join(directory, file), "utf8").trim()}\n`);
  return `==== ${String(name)} ${String(version)}, ${String(license)}\n${files.join("")}`;
}
