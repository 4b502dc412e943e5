/**
 * Memory that was freed goes back to the kernel. glibc returns by itself only what is free at the end of its heap. What
 * V8's compilers free lies between blocks in use: 17 of 22 MiB after 160 lives of pods. `malloc_trim` returns those
 * pages, too.
 *
 * Node.js can call it by `node:ffi` alone, which is experimental and there from 26 on. Without that, or with a C library
 * without the function, such memory stays until it is used again.
 */
import { createRequire, isBuiltin } from "node:module";

/** The part of `node:ffi` that is used. */
export interface ForeignFunctions {
  dlopen(
    library: string,
    functions: Readonly<Record<string, { readonly arguments: readonly string[]; readonly return: string }>>,
  ): { readonly functions: Readonly<Record<string, (keptBytes: bigint) => unknown>> };
}

/**
 * To be called now and then; takes a few milliseconds of the main thread. The first call loads what it needs. `load` is
 * for tests.
 */
export function freedMemoryReturner(load = loadForeignFunctions): () => void {
  let trim: (() => unknown) | undefined = () => {
    trim = openTrim(load);
    trim?.();
  };
  return () => {
    try {
      trim?.();
    } catch {
      // Another C library, or another interface of what is experimental: nothing depends on it.
      trim = undefined;
    }
  };
}

function openTrim(load: () => ForeignFunctions | undefined): (() => unknown) | undefined {
  // Kept as a whole: what is called belongs to the library that was opened.
  const library = load()?.dlopen("libc.so.6", { malloc_trim: { arguments: ["u64"], return: "i32" } });
  if (library?.functions["malloc_trim"] === undefined) return undefined;
  return () => library.functions["malloc_trim"]?.(0n);
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
