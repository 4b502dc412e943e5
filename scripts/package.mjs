#!/usr/bin/env node
/**
 * `npm run package -- [FLAG...]`: what a release consists of, in one directory. The same commit and the same tools
 * give the same bytes: times are those of the commit, or SOURCE_DATE_EPOCH.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";
import { pack } from "tar-stream";
import { ensureDependencies } from "./setup/dependencies.mjs";
import { repositoryRoot as root } from "./setup/paths.mjs";

const usage = `Usage: npm run package -- [FLAG...]

  --out DIRECTORY         where the files are written (default: packages)
  --architecture A,...    amd64, arm64 (default: both)
  --format F,...          executable, tar.gz, deb, rpm, image (default: all)

rpm needs rpmbuild, deb needs dpkg-deb; the image of another architecture than this machine's needs Debian's
libraries for cross compilers (crossbuild-essential-arm64).
`;
const architectures = /** @type {const} */ (["amd64", "arm64"]);
const formats = /** @type {const} */ (["executable", "tar.gz", "deb", "rpm", "image"]);
const log = (/** @type {string} */ line) => process.stderr.write(`package: ${line}\n`);
const git = (/** @type {string[]} */ ...args) =>
  execFileSync("git", args, { cwd: root, encoding: "utf8" }).trim();

/**
 * @template {string} T
 * @param {string} flag
 * @param {string | undefined} value
 * @param {readonly T[]} all
 */
function chosen(flag, value, all) {
  const names = value?.split(",") ?? [...all];
  const unknown = names.find((name) => !all.some((each) => each === name));
  if (unknown !== undefined) throw new Error(`--${flag}: "${unknown}": must be of ${all.join(", ")}`);
  return all.filter((each) => names.includes(each));
}

/** The npm packages are there before what uses them is loaded. */
async function main() {
  const { values } = parseArgs({
    options: {
      out: { type: "string" },
      architecture: { type: "string" },
      format: { type: "string" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help === true) {
    process.stdout.write(usage);
    return;
  }
  const wantedArchitectures = chosen("architecture", values.architecture, architectures);
  const wantedFormats = chosen("format", values.format, formats);
  // npm changes the working directory.
  const out = resolve(
    values.out === undefined ? root : (process.env["INIT_CWD"] ?? "."),
    values.out ?? "packages",
  );
  await ensureDependencies({ root, log });
  const parts = mkdtempSync(join(tmpdir(), "dockershim-package-"));
  try {
    await write({ parts, out, wantedArchitectures, wantedFormats });
  } finally {
    rmSync(parts, { recursive: true, force: true });
  }
}

/**
 * @param {object} options
 * @param {string} options.parts
 * @param {string} options.out
 * @param {readonly (typeof architectures)[number][]} options.wantedArchitectures
 * @param {readonly string[]} options.wantedFormats
 */
async function write({ parts, out, wantedArchitectures, wantedFormats }) {
  const { nodeVersions, thisArchitecture, writeExecutable, writeParts } =
    await import("./package/executable.mjs");
  const { packageFiles } = await import("./package/tree.mjs");
  const { billOfMaterials } = await import("./package/bill-of-materials.mjs");
  /** @type {{ version: string }} */
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const isChanged = git("status", "--porcelain", "--untracked-files=no") !== "";
  const release = { version, commit: git("rev-parse", "HEAD").slice(0, 12) + (isChanged ? "-dirty" : "") };
  const time = process.env["SOURCE_DATE_EPOCH"] ?? git("log", "-1", "--format=%ct");
  if (!/^\d{1,11}$/.test(time)) throw new Error(`SOURCE_DATE_EPOCH: "${time}": must be seconds since 1970`);
  const epoch = Number(time);
  log(`dockershim ${version} (${release.commit})`);
  const node = await nodeVersions(log);
  const inputs = await writeParts({ root, directory: parts, release, log });
  clear(out);
  writeFileSync(
    join(out, `dockershim-${version}.cdx.json`),
    billOfMaterials({ root, inputs, version, epoch, node }),
  );
  const executableOf = async (
    /** @type {"amd64" | "arm64"} */ architecture,
    output = join(parts, architecture),
  ) => {
    await writeExecutable({ root, directory: parts, architecture, output, log });
    return output;
  };
  const runnable = await executableOf(thisArchitecture);
  for (const architecture of wantedArchitectures) {
    const executable = architecture === thisArchitecture ? runnable : await executableOf(architecture);
    const files = packageFiles({ root, parts, executable, runnable, architecture });
    const name = (/** @type {string} */ ending) =>
      join(out, `dockershim-${version}-linux-${architecture}${ending}`);
    const options = { files, version, architecture, epoch };
    for (const format of wantedFormats) {
      log(`${format} for ${architecture} ...`);
      if (format === "executable") writeFileSync(name(""), readFileSync(executable), { mode: 0o755 });
      if (format === "tar.gz") writeFileSync(name(".tar.gz"), await archiveOf(files, epoch));
      if (format === "deb") {
        const { writeDeb } = await import("./package/deb.mjs");
        await writeDeb({ ...options, output: join(out, `dockershim_${version}_${architecture}.deb`) });
      }
      if (format === "rpm") {
        const { writeRpm } = await import("./package/rpm.mjs");
        await writeRpm({ ...options, output: name(".rpm") });
      }
      if (format === "image") {
        const { imageOf } = await import("./package/image.mjs");
        const { commit } = release;
        writeFileSync(
          name(".image.tar.gz"),
          await imageOf({ root, files, version, commit, architecture, log }),
        );
      }
    }
  }
  for (const format of wantedFormats) {
    const { criDockerdFiles, debAbout, rpmAbout } = await import("./package/cri-dockerd.mjs");
    const name = "dockershim-cri-dockerd";
    const options = { version, architecture: /** @type {const} */ ("all"), epoch };
    if (format === "deb") {
      const { writeDeb } = await import("./package/deb.mjs");
      const output = join(out, `${name}_${version}_all.deb`);
      await writeDeb({ ...options, files: criDockerdFiles(root, format), output, about: debAbout(version) });
    }
    if (format === "rpm") {
      const { writeRpm } = await import("./package/rpm.mjs");
      const output = join(out, `${name}-${version}-linux-noarch.rpm`);
      await writeRpm({ ...options, files: criDockerdFiles(root, format), output, about: rpmAbout(version) });
    }
  }
  const sums = readdirSync(out)
    .sort()
    .map(
      (file) =>
        `${createHash("sha256")
          .update(readFileSync(join(out, file)))
          .digest("hex")}  ${file}\n`,
    );
  writeFileSync(join(out, "SHA256SUMS"), sums.join(""));
  log(`wrote ${String(sums.length + 1)} files to ${out}`);
}

/**
 * What an earlier run wrote goes. Throws when the directory has anything else.
 * @param {string} out
 */
function clear(out) {
  mkdirSync(out, { recursive: true });
  const names = readdirSync(out);
  const foreign = names.find((name) => !/^(dockershim[-_].*|SHA256SUMS)$/.test(name));
  if (foreign !== undefined) throw new Error(`--out: "${out}" has other files, such as "${foreign}"`);
  for (const name of names) rmSync(join(out, name));
}

/**
 * To be unpacked at /.
 * @param {readonly import("./package/tree.mjs").PackageFile[]} files
 * @param {number} epoch
 */
async function archiveOf(files, epoch) {
  const tar = pack();
  for (const { path, mode, content } of files)
    tar.entry({ name: path, mode, mtime: new Date(epoch * 1000) }, content);
  tar.finalize();
  /** @type {Buffer[]} */
  const chunks = [];
  for await (const chunk of tar) chunks.push(chunk);
  return gzipSync(Buffer.concat(chunks), { level: 9 });
}

try {
  await main();
} catch (error) {
  log(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
