/** Files that the kernel runs, for children of this process: the helper has the kernel's own answer. */
import { closeSync, fstatSync, openSync, readSync, statSync } from "node:fs";
import { ShimError } from "../../lib/errors.js";
import { LruMap } from "../../lib/lru-map.js";

/** Two changes within one tick of the file system's clock (2 s on the coarsest) leave a file with one ctime. */
const settledMs = 3_000;

/** libuv gives a file that the kernel refuses to /bin/sh, which would run the text in it as root. */
export class KnownPrograms {
  /** By path: a run then asks for one thing in place of four. */
  readonly #identities = new LruMap<string, string>(64);

  constructor(
    private readonly deps: {
      readonly look: (path: string) => void;
      /** Milliseconds since 1970, as the file system's. */
      readonly now: () => number;
    } = { look: lookAtProgram, now: () => Date.now() },
  ) {}

  /** Fails `unavailable` for a file that is no program. One that has not changed is not read again. */
  require(path: string): void {
    const { dev, ino, size, ctimeNs, ctimeMs } = statSync(path, { bigint: true });
    const identity = [dev, ino, size, ctimeNs].join(" ");
    if (this.#identities.get(path) === identity) return;
    this.deps.look(path);
    if (this.deps.now() - Number(ctimeMs) > settledMs) this.#identities.set(path, identity);
  }
}

function lookAtProgram(path: string): void {
  const file = openSync(path, "r");
  try {
    const header = Buffer.alloc(elfHeaderBytes);
    const bytesRead = readSync(file, header, 0, elfHeaderBytes, 0);
    if (header.toString("latin1", 0, Math.min(bytesRead, 2)) === "#!") return;
    if (isLoadable(header.subarray(0, bytesRead), fstatSync(file).size)) return;
  } finally {
    closeSync(file);
  }
  throw new ShimError("unavailable", `run ${JSON.stringify(path)}: ${notAProgram}`, { path });
}

/** Why the kernel refuses a file. */
export const notAProgram = "neither a program for this processor nor a script that begins with #!";

const elfHeaderBytes = 64;
/** ELF machine numbers that each processor runs: its own, and its 32-bit one. */
const machines: Readonly<Record<string, readonly number[]>> = { x64: [62, 3], arm64: [183, 40] };

/** Whether the kernel accepts the file as a program: not a truncated copy, nor one for another processor. */
function isLoadable(header: Buffer, fileBytes: number): boolean {
  if (header.length < elfHeaderBytes || header.toString("latin1", 0, 4) !== "\x7fELF") return false;
  const is64 = header[4] === 2;
  // Little endian, as the processors that this program runs on.
  if ((!is64 && header[4] !== 1) || header[5] !== 1) return false;
  const type = header.readUInt16LE(16);
  const known = machines[process.arch];
  if ((type !== 2 && type !== 3) || known?.includes(header.readUInt16LE(18)) === false) return false;
  const programHeaders = is64 ? Number(header.readBigUInt64LE(32)) : header.readUInt32LE(28);
  const entryBytes = header.readUInt16LE(is64 ? 54 : 42);
  const entries = header.readUInt16LE(is64 ? 56 : 44);
  return entries > 0 && programHeaders + entries * entryBytes <= fileBytes;
}
