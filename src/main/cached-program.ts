/**
 * Runs a program that is one CommonJS module, with V8's code cache: what the cache has is not compiled, and no loader
 * of modules runs. scripts/setup/bundle.mjs writes both files.
 *
 * The cache only saves time. Without one, and with one that is damaged or was made of another file or for
 * another Node.js, the program is compiled.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import { Script } from "node:vm";
import * as zlib from "node:zlib";

/** A multiple of 8: V8 copies data that is not aligned. */
const headerBytes = 128;

/** As Node.js' own loader wraps a module. */
type Load = (
  exports: unknown,
  require: NodeJS.Require,
  module: object,
  file: string,
  directory: string,
) => void;

export interface CachedProgram {
  readonly script: Script;
  /** The file of the cache for what the script has compiled until now; undefined where Node.js cannot check it. */
  readonly cacheFile: () => Buffer | undefined;
  /** Answers what the module exports. */
  readonly run: (require?: NodeJS.Require) => unknown;
}

/**
 * `path`.cjs, whose text is ASCII, with the cache `path`.cache. Throws when the program cannot be read. `read`: they are no files, but
 * assets of an executable.
 */
export function readProgram(path: string, read: (path: string) => Buffer = readFileSync): CachedProgram {
  const filename = `${path}.cjs`;
  const bytes = read(filename);
  const cachedData = readCache(() => read(`${path}.cache`), bytes);
  const text = `(function(exports,require,module,__filename,__dirname){${bytes.toString("latin1")}\n})`;
  const script = new Script(text, { filename, ...(cachedData && { cachedData }) });
  return {
    script,
    cacheFile: () => {
      const data = script.createCachedData();
      const header = headerOf(bytes, data);
      return header && Buffer.concat([header, data]);
    },
    run: (require = createRequire(filename)) => {
      // Node.js reads the source maps of what its own loader loads.
      if (process.sourceMapsEnabled) return require(filename) as unknown;
      const module = { exports: {} };
      const load = script.runInThisContext() as Load;
      load(module.exports, require, module, filename, dirname(filename));
      return module.exports;
    },
  };
}

function readCache(read: () => Buffer, program: Buffer): Buffer | undefined {
  let content: Buffer;
  try {
    content = read();
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
