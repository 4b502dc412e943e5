/**
 * What a process does not need goes back to the kernel, in two ways:
 *
 * - glibc returns by itself only what is free at the end of its heap. What V8's compilers free lies between blocks in
 *   use: 17 of 22 MiB after 160 lives of pods. `malloc_trim` returns those pages, too.
 * - Of the pages of the program's own file that a start has touched, a server uses a third afterwards. They leave the
 *   process, and stay in the kernel's cache of files. What is used again comes back without a read.
 *
 * Node.js can call these functions by `node:ffi` alone, which is experimental and there from 26 on. Without that, or
 * with a C library without them, such memory stays until it is used again.
 */
import { closeSync, openSync, readFileSync, readlinkSync, readSync } from "node:fs";
import { createRequire, isBuiltin } from "node:module";

/** The part of `node:ffi` that is used. */
export interface ForeignFunctions {
  dlopen(
    library: string,
    functions: Readonly<Record<string, { readonly arguments: readonly string[]; readonly return: string }>>,
  ): { readonly functions: Readonly<Record<string, (...values: readonly (bigint | number)[]) => unknown>> };
}

/** Addresses in bytes; the second is behind the last page. */
type Range = readonly [start: bigint, end: bigint];

const declarations = {
  malloc_trim: { arguments: ["u64"], return: "i32" },
  madvise: { arguments: ["u64", "u64", "i32"], return: "i32" },
};
/** MADV_DONTNEED of madvise(2): the next access takes the page from the file again. */
const doNotNeed = 4;
/**
 * Of the program and its libraries. A server uses some 20 MiB of them while nothing happens: without this limit it would give them
 * back for 4 ms of CPU time, and take them again, twice a minute.
 */
const keptKilobytes = 24 * 1024;

/**
 * To be called now and then; takes a few milliseconds of the main thread. The first call loads what it needs. `load` and
 * `readRanges` are for tests.
 */
export function freedMemoryReturner(load = loadForeignFunctions, readRanges = rangesOfProgram): () => void {
  let giveBack: (() => void) | undefined = () => {
    // Stays so with another C library, or another interface of what is experimental.
    giveBack = undefined;
    giveBack = open(load, readRanges);
    giveBack?.();
  };
  return () => {
    try {
      giveBack?.();
    } catch {
      // Nothing depends on it. No file can be opened at the moment, for example.
    }
  };
}

function open(
  load: () => ForeignFunctions | undefined,
  readRanges: () => readonly Range[],
): (() => void) | undefined {
  // Kept as a whole: what is called belongs to the library that was opened.
  const library = load()?.dlopen("libc.so.6", declarations);
  if (library === undefined) return undefined;
  return () => {
    const { malloc_trim: trim, madvise } = library.functions;
    trim?.(0n);
    for (const [start, end] of readRanges()) madvise?.(start, end - start, doNotNeed);
  };
}

/**
 * Read and used without a wait in between. The program's own file stays mapped where it is; a library that a thread closes in the
 * meantime would leave its addresses to something else.
 */
function rangesOfProgram(): readonly Range[] {
  const status = readFileSync("/proc/self/status", "latin1");
  if (Number(/^RssFile:\s+(\d+) kB$/m.exec(status)?.[1]) <= keptKilobytes) return [];
  const file = readlinkSync("/proc/self/exe");
  const chunk = Buffer.alloc(64 * 1024);
  const smaps = openSync("/proc/self/smaps", "r");
  try {
    const readNext = (): string => chunk.toString("latin1", 0, readSync(smaps, chunk));
    return unchangedRanges(textThroughFile(readNext, file), file);
  } finally {
    closeSync(smaps);
  }
}

/**
 * Of /proc/PID/smaps what ends after the mappings of `file`, which lie beside each other, mostly before all others. A heap of
 * 360 MiB has a thousand mappings after them, all of whose pages the kernel would count.
 */
export function textThroughFile(readNext: () => string, file: string): string {
  let text = "";
  for (let next = readNext(); next !== ""; next = readNext()) {
    text += next;
    const last = text.lastIndexOf(` ${file}\n`);
    if (last >= 0 && /^[\da-f]+-[\da-f]+ /m.test(text.slice(last))) break;
  }
  return text;
}

/**
 * Where `file` is mapped, of which the process has changed nothing: proc(5) about /proc/PID/smaps. What it has changed is lost
 * with the page. Relocations are such changes, in mappings that can only be read afterwards; a debugger makes some in the code. They
 * are anonymous memory, or swapped out.
 */
export function unchangedRanges(smaps: string, file: string): readonly Range[] {
  return smaps.split(/^(?=[\da-f]+-[\da-f]+ )/m).flatMap((mapping) => {
    const [, start, end, path] =
      /^([\da-f]+)-([\da-f]+) r-[x-]p [\da-f]+ \S+ \d+ +(.+)$/m.exec(mapping) ?? [];
    const isUnchanged = /^Anonymous: +0 kB$/m.test(mapping) && /^Swap: +0 kB$/m.test(mapping);
    return path === file && isUnchanged ? [[BigInt(`0x${start}`), BigInt(`0x${end}`)] as const] : [];
  });
}

function loadForeignFunctions(): ForeignFunctions | undefined {
  if (!isBuiltin("node:ffi")) return undefined;
  // Users can do nothing about the warning that it is experimental.
  const emitWarning: unknown = Reflect.get(process, "emitWarning");
  Reflect.set(process, "emitWarning", () => undefined);
  try {
    return createRequire("/")("node:ffi") as ForeignFunctions;
  } finally {
    Reflect.set(process, "emitWarning", emitWarning);
  }
}
