/** Where this installation is: its directory `native`, and what it says of its version. */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { ShimError } from "./errors.js";

/** The directory of this program's package.json, absolute: the same from src/ and from the files of dist/. */
export function packageDirectory(): string {
  return findPackageDirectory(dirname(fileURLToPath(import.meta.url)));
}

/** `start` or the nearest directory above it that has a package.json; `internal` when none has. */
export function findPackageDirectory(start: string): string {
  for (let directory = start; ; directory = dirname(directory)) {
    if (existsSync(join(directory, "package.json"))) return directory;
    if (directory === dirname(directory)) {
      throw new ShimError("internal", `find package.json above "${start}": not found`);
    }
  }
}
