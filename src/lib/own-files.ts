/** The native programs and the version of this program, in its installation or its executable. */
import { createHash } from "node:crypto";
import { chmodSync, existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire, isBuiltin } from "node:module";
import { basename, dirname, join } from "node:path";
import type * as Sea from "node:sea";
import { fileURLToPath } from "node:url";
import { messageOf, ShimError } from "./errors.js";
import { replaceFileSync } from "./files/atomic-file.js";

/** Files by their paths below the directory of package.json, as `native/bin/pause-amd64`. */
export interface OwnFiles {
  /** Throws when the program does not carry the file. */
  readonly read: (path: string) => Buffer;
  /** Its path. One inside of an executable is written to `directory`, which becomes private. */
  readonly program: (path: string, directory: string) => string;
  /** Program and arguments that start this program again. */
  readonly self: readonly [program: string, ...args: string[]];
  /** For `read`: the licenses of the packages that the program contains. */
  readonly licenses: string;
  /** The directory of an installation, which may be a git checkout; undefined for an executable. */
  readonly directory?: string;
}

/** Those of the directory of package.json, which is found at the first use; from src/ and from dist/ it is the same one. */
function filesOfInstallation(): OwnFiles {
  let root: string | undefined;
  const directory = (): string => (root ??= findPackageDirectory(dirname(fileURLToPath(import.meta.url))));
  return {
    read: (path) => readFileSync(join(directory(), path)),
    program: (path) => join(directory(), path),
    self: [process.execPath, ...process.execArgv, process.argv[1] ?? ""],
    licenses: "dist/LICENSES.txt",
    get directory() {
      return directory();
    },
  };
}

/** Those of an executable, by its assets. */
export function filesOfExecutable(asset: (path: string) => Uint8Array): OwnFiles {
  const read = (path: string): Buffer => {
    const { buffer, byteOffset, byteLength } = asset(path);
    return Buffer.from(buffer, byteOffset, byteLength);
  };
  return {
    read,
    program: (path, directory) => extract(basename(path), read(path), directory),
    self: [process.execPath],
    licenses: "LICENSES.txt",
  };
}

/** Found at the first use. */
export function ownFiles(): OwnFiles {
  return (found ??= find());
}

let found: OwnFiles | undefined;

function find(): OwnFiles {
  // Not in Node.js before 20.12.
  if (isBuiltin("node:sea")) {
    const sea = createRequire("/")("node:sea") as typeof Sea;
    if (sea.isSea()) return filesOfExecutable((path) => new Uint8Array(sea.getRawAsset(path) as ArrayBuffer));
  }
  return filesOfInstallation();
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

/**
 * Whole or not at all. The name has the digest, so that a version never runs the program of another. What runs already is
 * not changed: a file that is replaced lives on until its process ends. Processes may do it side by side.
 * A directory or a file of another user is not used, and no link is followed: this program may be root. `unsupported` when
 * the program cannot be written, as on a full disk; what needs it has a fallback, or is not there.
 */
function extract(name: string, content: Buffer, directory: string): string {
  const digest = createHash("sha256").update(content).digest("hex");
  const file = `${name}-${digest.slice(0, 16)}`;
  const path = join(directory, file);
  try {
    mkdirSync(directory, { recursive: true, mode: privateMode });
    if (!isOwn(directory, "isDirectory")) throw new Error("the directory is another user's, or a link");
    const entries = readdirSync(directory);
    for (const each of entries) if (each.startsWith(`.${name}-`)) removeIfOld(join(directory, each));
    const present = entries.filter((each) => each.startsWith(`${name}-`));
    if (!present.includes(file) || !isOwn(path, "isFile") || !readFileSync(path).equals(content)) {
      replaceFileSync(path, content, { mode: privateMode, temporaryPrefix: `.${file}.` });
    }
    for (const old of present) if (old !== file) rmSync(join(directory, old), { force: true });
  } catch (error) {
    const message = `write the program "${path}": ${messageOf(error)}`;
    throw new ShimError("unsupported", message, {}, { cause: error });
  }
  return path;
}

/** What a killed process has left. A younger file may be one that is being written. */
function removeIfOld(path: string): void {
  const status = lstatSync(path, { throwIfNoEntry: false });
  if (status !== undefined && status.mtimeMs < Date.now() - longestWriteMs) rmSync(path, { force: true });
}

const longestWriteMs = 60_000;
const privateMode = 0o700;

/** Whether the file is this user's, and its mode the private one, which is set where it is not. */
function isOwn(path: string, kind: "isDirectory" | "isFile"): boolean {
  const status = lstatSync(path);
  if (!status[kind]() || status.uid !== process.geteuid?.()) return false;
  if ((status.mode & 0o777) !== privateMode) chmodSync(path, privateMode);
  return true;
}
