/** The Node.js that executables are made of: npm packages of a pinned version, without their symbols. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { gunzipSync } from "node:zlib";
import { extract } from "tar-stream";
import { cacheDirectory } from "../setup/paths.mjs";
import { run, tail, withoutHosts } from "../setup/run.mjs";

/** @typedef {"amd64" | "arm64"} Architecture */

const FETCH_TIMEOUT_MS = 10 * 60_000;

/** @type {{ version: string, integrity: Record<Architecture, string> }} */
const pinned = JSON.parse(readFileSync(join(import.meta.dirname, "node-binaries.json"), "utf8"));

export const nodeVersion = pinned.version;

/** What the program needs of the system, by the packages of distributions. */
export const libraries = [
  { files: /^(libc|libm|libdl|libpthread|ld-linux.*)\.so/, deb: "libc6 (>= 2.28)", rpm: "glibc >= 2.28" },
  { files: /^(libstdc\+\+|libgcc_s)\.so/, deb: "libstdc++6 (>= 8)", rpm: "libstdc++ >= 8" },
  { files: /^libatomic\.so/, deb: "libatomic1", rpm: "libatomic" },
];

/**
 * The paths of the program for `architecture`, fetched once, and of its license. Throws when npm cannot fetch the package, or
 * when the package is another one than the pinned.
 * @param {Architecture} architecture
 * @param {(line: string) => void} log
 */
export async function nodeBinary(architecture, log) {
  const key = createHash("sha256").update(pinned.integrity[architecture]).digest("hex").slice(0, 16);
  const directory = join(cacheDirectory, "node", `${nodeVersion}-${architecture}-${key}`);
  const files = { program: join(directory, "node"), license: join(directory, "LICENSE") };
  if (existsSync(directory)) return files;
  mkdirSync(dirname(directory), { recursive: true });
  const temporary = mkdtempSync(`${directory}.`);
  try {
    const name = `node-linux-${architecture === "amd64" ? "x64" : architecture}@${nodeVersion}`;
    log(`fetching ${name} ...`);
    const args = ["pack", name, "--ignore-scripts", "--silent", "--pack-destination", temporary];
    const { code, output } = await run("npm", args, { cwd: temporary, timeoutMs: FETCH_TIMEOUT_MS });
    if (code !== 0) throw new Error(`fetch the npm package ${name}:\n${tail(withoutHosts(output))}`);
    const archive = readFileSync(join(temporary, `${name.replace("@", "-")}.tgz`));
    const integrity = `sha512-${createHash("sha512").update(archive).digest("base64")}`;
    if (integrity !== pinned.integrity[architecture]) {
      throw new Error(
        `the npm package ${name} is another one than the pinned: its integrity is ${integrity}`,
      );
    }
    const content = await filesIn(gunzipSync(archive), ["package/bin/node", "package/LICENSE"]);
    const [program, license] = content;
    if (program === undefined || license === undefined) throw new Error(`${name} lacks bin/node or LICENSE`);
    const foreign = neededLibraries(program).find((file) => !libraries.some(({ files }) => files.test(file)));
    if (foreign !== undefined) throw new Error(`${name} needs ${foreign}, which no package is known for`);
    const made = join(temporary, "made");
    mkdirSync(made);
    writeFileSync(join(made, "node"), withoutSections(program), { mode: 0o755 });
    writeFileSync(join(made, "LICENSE"), license);
    renameSync(made, directory);
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
  return files;
}

/**
 * @param {Buffer} tar
 * @param {readonly string[]} names
 */
async function filesIn(tar, names) {
  const entries = extract();
  entries.end(tar);
  /** @type {Map<string, Buffer>} */
  const found = new Map();
  for await (const entry of entries) {
    /** @type {Buffer[]} */
    const chunks = [];
    for await (const chunk of entry) chunks.push(chunk);
    if (names.includes(entry.header.name)) found.set(entry.header.name, Buffer.concat(chunks));
  }
  return names.map((name) => found.get(name));
}

/** @typedef {{ type: number, offset: number, address: bigint, bytes: number }} Segment */

/**
 * @param {Buffer} program
 * @returns {Segment[]}
 */
function segmentsOf(program) {
  if (program.readUInt32BE(0) !== 0x7f454c46 || program[4] !== 2) throw new Error("not a 64-bit ELF program");
  const [start, size, count] = [
    Number(program.readBigUInt64LE(0x20)),
    program.readUInt16LE(0x36),
    program.readUInt16LE(0x38),
  ];
  return Array.from({ length: count }, (_, index) => {
    const header = start + index * size;
    return {
      type: program.readUInt32LE(header),
      offset: Number(program.readBigUInt64LE(header + 0x08)),
      address: program.readBigUInt64LE(header + 0x10),
      bytes: Number(program.readBigUInt64LE(header + 0x20)),
    };
  });
}

/**
 * The libraries that a 64-bit ELF program names, as `libc.so.6`.
 * @param {Buffer} program
 */
export function neededLibraries(program) {
  const segments = segmentsOf(program);
  const dynamic = segments.find(({ type }) => type === 2);
  if (dynamic === undefined) return [];
  const entries = Array.from({ length: dynamic.bytes / 16 }, (_, index) => {
    const entry = dynamic.offset + index * 16;
    return { tag: Number(program.readBigInt64LE(entry)), value: program.readBigUInt64LE(entry + 8) };
  });
  const names = entries.find(({ tag }) => tag === 5)?.value ?? 0n;
  const holder = segments.find(
    ({ type, address, bytes }) => type === 1 && names >= address && names < address + BigInt(bytes),
  );
  if (holder === undefined) throw new Error("an ELF program without names of libraries");
  const start = holder.offset + Number(names - holder.address);
  return entries
    .filter(({ tag }) => tag === 1)
    .map(({ value }) => {
      const at = start + Number(value);
      return program.toString("latin1", at, program.indexOf(0, at));
    });
}

/**
 * A 64-bit ELF program without what follows its last segment: symbols, and the names of sections. It is a fifth of Node.js, and
 * nothing of it is loaded. As `strip` of binutils, which has a program for each architecture, and which differs by version.
 * @param {Buffer} program
 */
export function withoutSections(program) {
  const ends = segmentsOf(program).map(({ offset, bytes }) => offset + bytes);
  const headers =
    program.readUInt16LE(0x36) * program.readUInt16LE(0x38) + Number(program.readBigUInt64LE(0x20));
  const short = Buffer.from(program.subarray(0, Math.max(headers, ...ends)));
  // e_shoff, then e_shentsize, e_shnum and e_shstrndx: no sections.
  short.writeBigUInt64LE(0n, 0x28);
  short.fill(0, 0x3a, 0x40);
  return short;
}
