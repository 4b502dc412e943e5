/** Carries out the edits of a plan, and takes them back. The only part of `src/migrate` that writes. */
import { createHash, randomBytes } from "node:crypto";
import { chmod, chown, lstat, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path/posix";
import { messageOf, ShimError, succeeds } from "../../lib/errors.js";
import { removeFile, writeFileAtomically } from "../../lib/files/atomic-file.js";
import { createDirectory } from "../../lib/files/directories.js";
import { hasCode } from "../../lib/files/file-errors.js";
import { readRegularFile } from "../../lib/files/state-files.js";
import { decodeText } from "../files/node-files.js";
import type { FileEdit } from "./unified-diff.js";

/** Where `--write` keeps what the files had, below the root directory. */
export const backupDirectory = "/var/lib/dockershim-migrate";
const manifestName = "manifest.json";
const manifestLimitBytes = 1024 * 1024;
const fileLimitBytes = 1024 * 1024;
const newFileMode = 0o644;

interface ManifestFile {
  /** On the node. */
  readonly path: string;
  /** Name in the backup directory; null: there was no file. */
  readonly backup: string | null;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  /** SHA-256 of what the plan wrote; null: it removed the file. */
  readonly writtenSha256: string | null;
}

interface Manifest {
  readonly format: "dockershim-migrate-undo";
  readonly version: 1;
  readonly root: string;
  readonly files: readonly ManifestFile[];
  /** Directories on the node that the plan makes, parents first. */
  readonly directories: readonly string[];
}

/** Writes all edits or none, if each file is as the plan saw it. Answers the directory for `undoPlan`. */
export async function writePlan(root: string, edits: readonly FileEdit[]): Promise<string> {
  const directory = join(root, backupDirectory, `${stamp()}-${randomBytes(4).toString("hex")}`);
  const files: ManifestFile[] = [];
  for (const edit of edits) await requireContent(join(root, edit.path), edit.before);
  await createDirectory(directory, 0o700);
  await chmod(directory, 0o700);
  for (const [index, { path, before, after }] of edits.entries()) {
    const backup = before === undefined ? null : `file-${index}`;
    if (before !== undefined && backup !== null) await write(join(directory, backup), before, 0o600);
    const writtenSha256 = after === undefined ? null : sha256(after);
    files.push({ path, backup, ...(await ownerOf(join(root, path))), writtenSha256 });
  }
  const directories = await missingDirectories(root, edits);
  const manifest: Manifest = { format: "dockershim-migrate-undo", version: 1, root, files, directories };
  await write(join(directory, manifestName), `${JSON.stringify(manifest, undefined, 2)}\n`, 0o600);
  const done: FileEdit[] = [];
  try {
    for (const [index, edit] of edits.entries()) {
      // Once more: an operator or a package may have written it while the others were.
      await requireContent(join(root, edit.path), edit.before);
      done.push(edit);
      await put(root, files[index], edit.after);
    }
  } catch (error) {
    const failed = await restore(root, files, done);
    await removeDirectories(root, directories);
    const rest = failed.length === 0 ? "all files are as before" : `NOT restored: ${failed.join("; ")}`;
    throw new ShimError(
      "unavailable",
      `write the plan: ${messageOf(error)}; ${rest} (copies in ${directory})`,
    );
  }
  return directory;
}

/** Directories of the edited files that are missing on the node, parents first. */
async function missingDirectories(root: string, edits: readonly FileEdit[]): Promise<readonly string[]> {
  const missing = new Set<string>();
  for (const { path, after } of edits) {
    if (after === undefined) continue;
    for (let one = dirname(path); one !== "/" && !(await isThere(join(root, one))); one = dirname(one))
      missing.add(one);
  }
  return [...missing].sort();
}

async function isThere(path: string): Promise<boolean> {
  return succeeds(lstat(path));
}

/** Those that have nothing in them. */
async function removeDirectories(root: string, directories: readonly string[]): Promise<void> {
  for (const directory of directories.toReversed()) {
    // Not empty: it has files of others by now. Absent: an earlier undo was here.
    await rmdir(join(root, directory)).catch(() => undefined);
  }
}

/** Undoes in reverse order; answers what failed. */
async function restore(
  root: string,
  files: readonly ManifestFile[],
  done: readonly FileEdit[],
): Promise<readonly string[]> {
  const failed: string[] = [];
  for (const edit of done.toReversed()) {
    const file = files.find(({ path }) => path === edit.path);
    try {
      await put(root, file, edit.before);
    } catch (error) {
      failed.push(messageOf(error));
    }
  }
  return failed;
}

/** `removed`: the file was not there before. */
export interface UndoneFile {
  readonly path: string;
  readonly change: "restored" | "removed";
}

/** Refuses when a file is not as the plan left it. */
export async function undoPlan(directory: string): Promise<readonly UndoneFile[]> {
  const { root, files, directories } = await readManifest(directory);
  const contents: (string | undefined)[] = [];
  for (const { path, backup, writtenSha256 } of files) {
    const now = await contentOf(join(root, path));
    const before = backup === null ? undefined : await contentOf(join(directory, backup));
    if (backup !== null && before === undefined)
      throw new ShimError("invalid", `undo ${JSON.stringify(directory)}: ${backup} is missing there`);
    // The same as before: an earlier undo was here.
    if (now !== before && (now === undefined ? null : sha256(now)) !== writtenSha256)
      throw new ShimError(
        "precondition",
        `undo ${JSON.stringify(directory)}: ${JSON.stringify(path)} has changed since; ${backup === null ? "it was not there before" : `what it had is in ${join(directory, backup)}`}`,
      );
    contents.push(before);
  }
  const edits = files.map(({ path }, index) => ({ path, before: undefined, after: contents[index] }));
  for (const [index, { after }] of edits.entries()) await put(root, files[index], after);
  await removeDirectories(root, directories);
  return files.map(({ path, backup }) => ({ path, change: backup === null ? "removed" : "restored" }));
}

async function readManifest(directory: string): Promise<Manifest> {
  const path = join(directory, manifestName);
  const refuse = (reason: string): ShimError =>
    new ShimError(
      "invalid",
      `undo ${JSON.stringify(directory)}: ${reason}; give the directory that --write printed`,
    );
  const reading = await readRegularFile(path, manifestLimitBytes);
  if (reading.kind === "absent") throw refuse(`there is no ${manifestName}`);
  if (reading.kind === "unfit") throw refuse(`${manifestName} is ${reading.reason}`);
  let manifest: Manifest;
  try {
    manifest = JSON.parse(Buffer.from(reading.bytes).toString("utf8")) as Manifest;
  } catch {
    throw refuse(`${manifestName} is not JSON`);
  }
  if (!isManifest(manifest)) throw refuse(`${manifestName} is not of this program, or of a newer version`);
  return manifest;
}

function isManifest(value: unknown): value is Manifest {
  const manifest = value as Partial<Manifest> | null;
  return (
    manifest?.format === "dockershim-migrate-undo" &&
    manifest.version === 1 &&
    typeof manifest.root === "string" &&
    Array.isArray(manifest.directories) &&
    manifest.directories.every(isNodePath) &&
    Array.isArray(manifest.files) &&
    manifest.files.every(
      (file: Partial<ManifestFile> | null) =>
        file !== null &&
        isNodePath(file.path) &&
        (file.backup === null || /^file-\d+$/.test(file.backup ?? "")) &&
        [file.mode, file.uid, file.gid].every((number) => Number.isInteger(number)) &&
        (file.writtenSha256 === null || typeof file.writtenSha256 === "string"),
    )
  );
}

function isNodePath(path: unknown): boolean {
  return typeof path === "string" && path.startsWith("/") && !path.split("/").includes("..");
}

async function put(root: string, file: ManifestFile | undefined, content: string | undefined): Promise<void> {
  if (file === undefined) throw new ShimError("internal", "write the plan: a file without an entry");
  const path = join(root, file.path);
  if (content === undefined) {
    await removeFile(path);
    return;
  }
  await createDirectory(dirname(path), 0o755);
  await write(path, content, file.mode);
  if (process.getuid?.() === 0) await chown(path, file.uid, file.gid);
}

async function write(path: string, content: string, mode: number): Promise<void> {
  await writeFileAtomically(path, content, { mode, temporaryPrefix: ".dockershim-" });
}

async function requireContent(path: string, expected: string | undefined): Promise<void> {
  if ((await contentOf(path)) !== expected)
    throw new ShimError(
      "precondition",
      `write the plan: ${JSON.stringify(path)} has changed since it was read`,
    );
}

async function contentOf(path: string): Promise<string | undefined> {
  const reading = await readRegularFile(path, fileLimitBytes);
  if (reading.kind === "absent") return undefined;
  const text = reading.kind === "read" ? decodeText(reading.bytes) : undefined;
  if (text !== undefined) return text;
  const reason = reading.kind === "unfit" ? reading.reason : "not UTF-8";
  throw new ShimError("invalid", `read ${JSON.stringify(path)}: ${reason}`);
}

async function ownerOf(path: string): Promise<Pick<ManifestFile, "mode" | "uid" | "gid">> {
  try {
    const { mode, uid, gid } = await lstat(path);
    return { mode: mode & 0o7777, uid, gid };
  } catch (error) {
    if (!hasCode(error, "ENOENT", "ENOTDIR")) throw error;
    return { mode: newFileMode, uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
  }
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** `20261123T140000Z`: sorts by time. */
function stamp(): string {
  return new Date().toISOString().replaceAll(/[-:]|\.\d+/g, "");
}
