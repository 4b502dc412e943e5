/** Files of the node below its root directory, as an installation finds and changes them. */
import { createHash } from "node:crypto";
import { lstat, rmdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path/posix";
import { readRegularFile } from "../lib/files/state-files.js";
import { NodeFiles } from "../migrate/files/node-files.js";
import { succeeds } from "../lib/errors.js";

/** An executable has a tenth of it. */
const limitBytes = 1024 ** 3;

/** Where the file is on this machine. Links to directories are followed as on the node, and the file itself may be one. */
export async function localPath(root: string, path: string): Promise<string> {
  const files = new NodeFiles(root);
  return join(files.local(await files.resolve(dirname(path))), basename(path));
}

/** The SHA-256 of the file; `absent`; `other` for what is no file. */
export async function presentDigest(root: string, path: string): Promise<string> {
  const reading = await readRegularFile(await localPath(root, path), limitBytes);
  if (reading.kind === "read") return sha256(reading.bytes);
  return reading.kind === "absent" ? "absent" : "other";
}

/** Of a file, or of what a link on the node leads to. */
export async function readText(root: string, path: string): Promise<string> {
  const reading = await new NodeFiles(root).read(path);
  if (reading.kind === "read") return reading.text;
  throw new Error(reading.kind === "absent" ? "the link leads to no file" : reading.reason);
}

export function sha256(content: Uint8Array): string {
  return createHash("sha256").update(content).digest("hex");
}

/** Directories of these files that are missing on the node, after links, parents first. */
export async function missingDirectories(root: string, paths: readonly string[]): Promise<readonly string[]> {
  const missing = new Set<string>();
  for (const path of paths) {
    const directory = await new NodeFiles(root).resolve(dirname(path));
    for (let one = directory; one !== "/" && !(await isThere(root, one)); one = dirname(one))
      missing.add(one);
  }
  return [...missing].sort();
}

/** The nearest directory above the file that is there, on this machine. */
export async function nearestDirectory(root: string, path: string): Promise<string> {
  const files = new NodeFiles(root);
  let one = await files.resolve(dirname(path));
  while (one !== "/" && !(await isThere(root, one))) one = dirname(one);
  return files.local(one);
}

export async function isThere(root: string, path: string): Promise<boolean> {
  return succeeds(lstat(await localPath(root, path)));
}

/** Those that have nothing in them. */
export async function removeDirectories(root: string, directories: readonly string[]): Promise<void> {
  for (const directory of directories.toReversed()) {
    // Not empty: it has files of others by now. Absent: an earlier run was here.
    await rmdir(await localPath(root, directory)).catch(() => undefined);
  }
}
