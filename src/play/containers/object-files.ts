/**
 * The files of a configMap, secret, downwardAPI or projected volume. They are replaced all at once, in the
 * layout of the kubelet, by which programs notice the change:
 *
 *     KEY    → ..data/KEY
 *     ..data → ..2026_01_31_12_00_00.x7Gk2a
 *     ..2026_01_31_12_00_00.x7Gk2a/KEY
 */
import type { Stats } from "node:fs";
import {
  chmod,
  chown,
  lstat,
  mkdir,
  mkdtemp,
  readFile,
  readdir,
  readlink,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { dirname, join } from "node:path";
import { hasCode } from "../../shim/lib/files/file-errors.js";
import type { VolumeFile, VolumeFiles } from "./volume-files.js";

const dataLink = "..data";
const newDataLink = "..data_tmp";

/** Leaves a volume as it is when it has these files already. `directory` must exist. */
export async function writeObjectFiles(
  directory: string,
  files: VolumeFiles,
  group: number | undefined,
): Promise<void> {
  const wanted = new Map([...files].map(([path, file]) => [path, { ...file, mode: modeOf(file, group) }]));
  const old = await currentData(directory);
  const isCurrent = old !== undefined && (await hasFiles(join(directory, old), wanted));
  const data = isCurrent ? old : await writeData(directory, wanted, group);
  if (!isCurrent) {
    await rm(join(directory, newDataLink), { force: true });
    await symlink(data, join(directory, newDataLink));
    await rename(join(directory, newDataLink), join(directory, dataLink));
  }
  await showNames(directory, new Set([...files.keys()].map((path) => path.split("/")[0] ?? "")));
  // Also of writes that were killed.
  for (const name of await readdir(directory)) {
    if (name.startsWith("..2") && name !== data) await rm(join(directory, name), { recursive: true });
  }
}

/** The group may always read, as in the kubelet. */
function modeOf({ mode }: VolumeFile, group: number | undefined): number {
  return group === undefined ? mode : mode | 0o440;
}

async function currentData(directory: string): Promise<string | undefined> {
  try {
    const data = await readlink(join(directory, dataLink));
    // A privileged container can write here after all. Nothing that it writes may lead elsewhere.
    return /^\.\.2[^/]*$/.test(data) ? data : undefined;
  } catch (error) {
    if (hasCode(error, "ENOENT", "EINVAL")) return undefined;
    throw error;
  }
}

async function hasFiles(data: string, wanted: VolumeFiles): Promise<boolean> {
  let entries: readonly string[];
  try {
    entries = await readdir(data, { recursive: true });
  } catch (error) {
    if (hasCode(error, "ENOENT")) return false; // A file system in memory, after a reboot.
    throw error;
  }
  let count = 0;
  for (const path of entries) {
    const stats = await stat(join(data, path));
    if (stats.isDirectory()) continue;
    count += 1;
    const file = wanted.get(path);
    if (file === undefined || (stats.mode & 0o7777) !== file.mode) return false;
    if (!(await readFile(join(data, path))).equals(file.content)) return false;
  }
  return count === wanted.size;
}

/** Answers the name of the new directory. */
async function writeData(directory: string, files: VolumeFiles, group: number | undefined): Promise<string> {
  const stamp = new Date().toISOString().slice(0, 19).replace(/[-T:]/g, "_");
  const data = await mkdtemp(join(directory, `..${stamp}.`));
  await giveDirectory(data, group);
  for (const [path, { content, mode }] of files) {
    const target = join(data, path);
    const above = dirname(path)
      .split("/")
      .filter((part) => part !== ".");
    for (let depth = 1; depth <= above.length; depth += 1) {
      const made = await mkdir(join(data, ...above.slice(0, depth)), { recursive: true });
      if (made !== undefined) await giveDirectory(made, group);
    }
    await writeFile(target, content, { mode: 0o600, flag: "wx" });
    if (group !== undefined) await chown(target, (await stat(target)).uid, group);
    await chmod(target, mode);
  }
  return data.slice(directory.length + 1);
}

async function giveDirectory(path: string, group: number | undefined): Promise<void> {
  if (group !== undefined) await chown(path, (await stat(path)).uid, group);
  await chmod(path, group === undefined ? 0o755 : 0o2755);
}

/** Makes the links that containers see, and removes those of files that are gone. */
async function showNames(directory: string, names: ReadonlySet<string>): Promise<void> {
  for (const name of names) {
    if ((await lstatOrUndefined(join(directory, name))) === undefined)
      await symlink(join(dataLink, name), join(directory, name));
  }
  for (const name of await readdir(directory)) {
    if (!name.startsWith("..") && !names.has(name)) await rm(join(directory, name), { force: true });
  }
}

async function lstatOrUndefined(path: string): Promise<Stats | undefined> {
  try {
    return await lstat(path);
  } catch (error) {
    if (hasCode(error, "ENOENT")) return undefined;
    throw error;
  }
}
