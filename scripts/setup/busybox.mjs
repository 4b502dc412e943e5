/** A static busybox of the distribution: the content of the images that the demo and the tests run. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { unpackedPackage } from "./install.mjs";
import { run } from "./run.mjs";

const PROGRAM_INTERPRETER = 3;

/** ELF machine numbers, and the names that Go and OCI give the architectures. */
/** @type {Record<number, "amd64" | "arm64">} */
const ARCHITECTURES = { 62: "amd64", 183: "arm64" };

/**
 * The architecture of a static 64-bit little-endian ELF program; undefined for anything else, also for a program
 * that needs a dynamic loader, which would not run alone in an image.
 * @param {Buffer} content
 * @returns {"amd64" | "arm64" | undefined}
 */
export function staticProgramArchitecture(content) {
  if (content.length < 64 || content.readUInt32BE(0) !== 0x7f454c46) return undefined;
  const is64LittleEndian = content[4] === 2 && content[5] === 1;
  if (!is64LittleEndian) return undefined;
  const offset = Number(content.readBigUInt64LE(32));
  const entrySize = content.readUInt16LE(54);
  const entries = content.readUInt16LE(56);
  for (let index = 0; index < entries; index += 1) {
    const at = offset + index * entrySize;
    if (at + 4 > content.length || content.readUInt32LE(at) === PROGRAM_INTERPRETER) return undefined;
  }
  return ARCHITECTURES[content.readUInt16LE(18)];
}

/**
 * @typedef {{ content: Buffer, architecture: "amd64" | "arm64", applets: string[] }} Busybox `applets`: names of
 *   the commands that it knows, without its own
 */

/**
 * The host's own static busybox, else the one of the distribution's package, unpacked beside the checkout. Throws
 * with the reason when there is none.
 * @param {{ cacheDirectory: string, allowDownload: boolean, log: (line: string) => void }} options
 * @returns {Promise<Busybox>}
 */
export async function findBusybox({ cacheDirectory, allowDownload, log }) {
  const unpacked = join(cacheDirectory, "packages", "busybox-static");
  const places = [
    "/bin/busybox",
    "/usr/bin/busybox",
    join(unpacked, "bin/busybox"),
    join(unpacked, "usr/bin/busybox"),
  ];
  const found = await firstStatic(places);
  if (found !== undefined) return found;
  if (!allowDownload)
    throw new Error("no static busybox on this host, and getting one is forbidden (--no-setup)");
  await unpackedPackage({ name: "busybox-static", cacheDirectory, log });
  const fetched = await firstStatic(places);
  if (fetched === undefined)
    throw new Error("the package busybox-static holds no static busybox for this processor");
  return fetched;
}

/** @param {readonly string[]} paths @returns {Promise<Busybox | undefined>} */
async function firstStatic(paths) {
  for (const path of paths) {
    const content = existsSync(path) ? readFileSync(path) : undefined;
    const architecture = content === undefined ? undefined : staticProgramArchitecture(content);
    if (content === undefined || architecture === undefined) continue;
    const { code, output } = await run(path, ["--list"], { timeoutMs: 10_000 });
    const applets = output.split("\n").filter((name) => /^[a-z0-9_[-]+$/i.test(name) && name !== "busybox");
    if (code === 0 && applets.includes("sh")) return { content, architecture, applets };
  }
  return undefined;
}
