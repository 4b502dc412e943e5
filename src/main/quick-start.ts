/**
 * Runs a program that is one file, with V8's code cache: what the cache has is not compiled, and no loader of
 * modules runs. scripts/setup/quick-bundle.mjs writes both files.
 *
 * The cache only saves time. Without one, and with one that is damaged or was made of another file or for
 * another Node.js, the program is compiled.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { Script } from "node:vm";
import * as zlib from "node:zlib";

/** A multiple of 8: V8 copies data that is not aligned. */
const headerBytes = 128;

/** What the file evaluates to. */
type Load = (require: NodeJS.Require, filename: string) => unknown;

export interface QuickProgram {
  readonly script: Script;
  /** The file `cachePath` for what the script has compiled until now; undefined where Node.js cannot check it. */
  readonly cacheFile: () => Buffer | undefined;
  /** Answers what the file's function returns. */
  readonly run: (require?: NodeJS.Require) => unknown;
}

/** The text of the file is ASCII. Throws when it cannot be read. */
export function readProgram(filename: string, cachePath: string): QuickProgram {
  const bytes = readFileSync(filename);
  const cachedData = readCache(cachePath, bytes);
  const script = new Script(bytes.toString("latin1"), { filename, ...(cachedData && { cachedData }) });
  return {
    script,
    cacheFile: () => {
      const data = script.createCachedData();
      const header = headerOf(bytes, data);
      return header && Buffer.concat([header, data]);
    },
    run: (require = createRequire(filename)) => (script.runInThisContext() as Load)(require, filename),
  };
}

function readCache(path: string, program: Buffer): Buffer | undefined {
  let content: Buffer;
  try {
    content = readFileSync(path);
  } catch {
    return undefined; // It is as good as none.
  }
  const data = content.subarray(headerBytes);
  const isFit = headerOf(program, data)?.equals(content.subarray(0, headerBytes));
  return isFit === true ? data : undefined;
}

/** V8 does not look whether a cache is damaged, and knows of the program only its length. */
function headerOf(program: Buffer, data: Buffer): Buffer | undefined {
  // Not in Node.js before 20.15.
  const crc32 = zlib.crc32 as typeof zlib.crc32 | undefined;
  if (crc32 === undefined) return undefined;
  const { node, v8 } = process.versions;
  const checks = [program, data].map((part) => `${part.length} ${crc32(part)}`);
  return Buffer.from(`${node} ${v8} ${process.arch} ${checks.join(" ")}`.padEnd(headerBytes), "latin1");
}
