/** Counts what this process does with paths, by the functions of node:fs that take one. */
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { mock } from "node:test";

/** Each is one call of the kernel with a path, or more. */
const functions = [
  ...[
    "access",
    "chmod",
    "link",
    "lstat",
    "mkdir",
    "open",
    "opendir",
    "readdir",
    "readFile",
    "readlink",
    "realpath",
  ],
  ...["rename", "rm", "rmdir", "stat", "statfs", "symlink", "truncate", "unlink", "utimes", "writeFile"],
];

/** A call by its function and path, in order. */
export class FileCalls implements Disposable {
  readonly made: string[] = [];
  /** Inside of a synchronous function, which may use others. */
  #depth = 0;
  readonly #restore: (() => void)[] = [];

  constructor() {
    for (const name of functions) {
      this.#watch(fs.promises, name);
      this.#watch(fs, `${name}Sync`);
    }
    this.#watch(fs, "watch");
    syncBuiltinESMExports();
  }

  #watch(object: object, name: string): void {
    const methods = object as Record<string, (...words: unknown[]) => unknown>;
    const original = methods[name];
    if (original === undefined) throw new Error(`nothing to watch: ${name}`);
    const note = (path: unknown): void => void this.made.push(`${name} ${String(path)}`);
    const enter = (step: 1 | -1): number => (this.#depth += step);
    const replaced = mock.method(methods, name, function (this: unknown, ...words: unknown[]) {
      // A number is an open file.
      if (enter(1) === 1 && typeof words[0] !== "number") note(words[0]);
      try {
        return original.apply(this, words);
      } finally {
        enter(-1);
      }
    });
    this.#restore.push(() => replaced.mock.restore());
  }

  [Symbol.dispose](): void {
    for (const restore of this.#restore) restore();
    syncBuiltinESMExports();
  }
}
