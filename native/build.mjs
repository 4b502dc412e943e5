#!/usr/bin/env node
// Builds the programs of native/. The same source gives the same bytes on every machine that has
// the tools named below; others are refused, because their bytes would differ.
//
//     node native/build.mjs [--output DIRECTORY] [--architecture amd64|arm64]...
//
// Exit code 2: a tool is not there or has another version (stderr says which).
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const compilerVersion = "gcc 12.2.0 (Debian 12.2.0-14)"; // Updates of Debian 12 add "+deb12u1" and the like.
const compilerPattern = /\(Debian 12\.2\.0-14(\+deb12u\d+)?\) 12\.2\.0$/;
const linkerVersion = "GNU ld 2.40 (Debian 12)";
const linkerPattern = /^GNU ld \(GNU Binutils for Debian\) 2\.40$/;

/** Every program NAME is built as NAME-ARCHITECTURE. */
const sources = {
  pause: ["pause.c"],
  "pod-dialer": ["pod-dialer.c"],
  "port-forward": ["port-forward.c"],
  "oci-runtime": ["oci-runtime.c"],
  helper: [
    "helper.c",
    "run-programs.c",
    "host-paths.c",
    "disk-usage.c",
    "play-files.c",
    "mapped-root.c",
    "notify.c",
    "mounts.c",
  ],
};
const programs = Object.keys(sources);

const targets = {
  amd64: {
    compiler: "x86_64-linux-gnu-gcc",
    package: "gcc (on amd64) or gcc-x86-64-linux-gnu",
    flags: ["-fcf-protection=none"],
  },
  arm64: {
    compiler: "aarch64-linux-gnu-gcc",
    package: "gcc (on arm64) or gcc-aarch64-linux-gnu",
    flags: ["-mbranch-protection=none"],
  },
};

const flags = [
  ...["-std=c11", "-Os", "-Wall", "-Wextra", "-Werror"],
  // No libc, and nothing that expects one. Without vector registers the entry point needs no aligned stack.
  ...[
    "-ffreestanding",
    "-nostdlib",
    "-static",
    "-fno-pie",
    "-no-pie",
    "-fno-stack-protector",
    "-mgeneral-regs-only",
  ],
  // Nothing in the file but code: no compiler name, unwind tables, symbols, paths or build id.
  ...["-fno-ident", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-g0", "-s"],
  ...["-Wl,--build-id=none", "-Wl,-z,noexecstack", "-Wl,-z,noseparate-code"],
];

const here = dirname(fileURLToPath(import.meta.url));
// Variables like CPATH, GCC_EXEC_PREFIX or a locale must not change what is built or what the tools say.
const environment = { PATH: process.env.PATH ?? "/usr/bin:/bin", LC_ALL: "C" };

class ToolError extends Error {}

function run(command, args) {
  return execFileSync(command, args, {
    cwd: here,
    env: environment,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
}

function firstLine(command, args) {
  return run(command, args).split("\n", 1)[0].trim();
}

/** Throws ToolError unless the compiler of `architecture` and its linker have the versions that the bytes come from. */
function checkTools(architecture) {
  const { compiler, package: debianPackage } = targets[architecture];
  let version;
  try {
    version = firstLine(compiler, ["--version"]);
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
    throw new ToolError(
      `${architecture} needs ${compilerVersion} as ${compiler}, which is not in PATH: package ${debianPackage} of Debian 12`,
    );
  }
  if (!compilerPattern.test(version)) {
    throw new ToolError(`${architecture} needs ${compilerVersion}, but ${compiler} is "${version}"`);
  }
  const linker = firstLine(run(compiler, ["-print-prog-name=ld"]).trim(), ["--version"]);
  if (!linkerPattern.test(linker)) {
    throw new ToolError(`${architecture} needs ${linkerVersion}, but ${compiler} links with "${linker}"`);
  }
}

function build(program, architecture, output) {
  const file = join(output, `${program}-${architecture}`);
  const target = targets[architecture];
  run(target.compiler, [...flags, ...target.flags, "-o", file, ...sources[program]]);
  chmodSync(file, 0o755);
}

/** Lists the programs in `directory` as `sha256sum --check` reads them. */
function writeChecksums(directory) {
  const names = programs.flatMap((program) =>
    Object.keys(targets).map((architecture) => `${program}-${architecture}`),
  );
  const lines = names
    .filter((name) => existsSync(join(directory, name)))
    .map(
      (name) =>
        `${createHash("sha256")
          .update(readFileSync(join(directory, name)))
          .digest("hex")}  ${name}\n`,
    );
  writeFileSync(join(directory, "SHA256SUMS"), lines.join(""));
}

function main() {
  const { values } = parseArgs({
    options: {
      output: { type: "string", default: join(here, "bin") },
      architecture: { type: "string", multiple: true, default: Object.keys(targets) },
    },
  });
  const unknown = values.architecture.find((name) => !Object.hasOwn(targets, name));
  if (unknown !== undefined)
    throw new Error(`unknown architecture "${unknown}", there is ${Object.keys(targets).join(", ")}`);
  const output = resolve(values.output);
  for (const architecture of values.architecture) checkTools(architecture);
  mkdirSync(output, { recursive: true });
  for (const architecture of values.architecture) {
    for (const program of programs) build(program, architecture, output);
  }
  writeChecksums(output);
}

try {
  main();
} catch (error) {
  process.stderr.write(`native/build.mjs: ${error.stderr || error.message}\n`);
  process.exitCode = error instanceof ToolError ? 2 : 1;
}
