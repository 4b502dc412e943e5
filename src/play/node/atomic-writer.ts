/**
 * The files of a configMap, secret, downwardAPI or projected volume. They are replaced all at once, in the
 * layout of the kubelet, by which programs notice the change:
 *
 *     KEY    → ..data/KEY
 *     ..data → ..2026_01_31_12_00_00.x7Gk2a
 *     ..2026_01_31_12_00_00.x7Gk2a/KEY
 */
import { randomBytes } from "node:crypto";
import { posix } from "node:path";
import { hasCode } from "../../lib/files/file-errors.js";
import type { FileCalls } from "./file-calls.js";
import type { VolumeFile, VolumeFiles } from "../pod-config/volume-files.js";
import type { VolumePreparation } from "../pod-config/volumes.js";

type ObjectVolume = Pick<
  Extract<VolumePreparation, { readonly kind: "files" }>,
  "path" | "files" | "group" | "mountPoints"
>;

const dataLink = "..data";
const newDataLink = "..data_tmp";

/** Leaves a volume that has these files already. Makes directories for mounts below it, and follows no links out. */
export async function writeObjectFiles(volume: ObjectVolume, calls: FileCalls): Promise<void> {
  const { path: directory, files, group, mountPoints } = volume;
  const wanted = new Map([...files].map(([path, file]) => [path, { ...file, mode: modeOf(file, group) }]));
  const old = await currentData(directory, calls);
  const isCurrent = old !== undefined && (await hasFiles(posix.join(directory, old), wanted, calls));
  const data = isCurrent ? old : await writeData(directory, wanted, group, calls);
  if (!isCurrent) {
    if ((await calls.look(posix.join(directory, newDataLink))) !== undefined)
      await calls.unlink(posix.join(directory, newDataLink));
    await calls.makeLink(data, posix.join(directory, newDataLink));
    await calls.rename(posix.join(directory, newDataLink), posix.join(directory, dataLink));
  }
  await showNames(directory, { shown: firstParts(files.keys()), kept: firstParts(mountPoints) }, calls);
  // Also of writes that were killed.
  for (const name of await calls.list(directory)) {
    if (name.startsWith("..2") && name !== data) await calls.removeTree(posix.join(directory, name));
  }
  for (const point of mountPoints) await calls.findSubPath(directory, point);
}

function firstParts(paths: Iterable<string>): ReadonlySet<string> {
  return new Set([...paths].map((path) => path.split("/")[0] ?? ""));
}

/** The group may always read, as in the kubelet. */
function modeOf({ mode }: VolumeFile, group: number | undefined): number {
  return group === undefined ? mode : mode | 0o440;
}

/** The name of the directory that has the files; undefined when there is none. */
export async function currentData(directory: string, calls: FileCalls): Promise<string | undefined> {
  try {
    const data = await calls.readLink(posix.join(directory, dataLink));
    // A privileged container can write here after all. Nothing that it writes may lead to another place.
    return /^\.\.2[^/]*$/.test(data) ? data : undefined;
  } catch (error) {
    if (hasCode(error, "ENOENT", "EINVAL")) return undefined;
    throw error;
  }
}

async function hasFiles(data: string, wanted: VolumeFiles, calls: FileCalls): Promise<boolean> {
  let count = 0;
  const isWanted = async (path: string): Promise<boolean> => {
    const stats = await calls.look(posix.join(data, path));
    if (stats?.kind === "directory") {
      const names = await calls.list(posix.join(data, path));
      return (await Promise.all(names.map((name) => isWanted(posix.join(path, name))))).every(Boolean);
    }
    count += 1;
    const file = wanted.get(path);
    if (stats?.kind !== "file" || stats.mode !== file?.mode || stats.size !== file.content.length)
      return false;
    return (await calls.readFile(posix.join(data, path))).equals(file.content);
  };
  // Nothing is there in a file system in memory, after a reboot.
  return (await isWanted("")) && count === wanted.size;
}

/** Answers the name of the new directory. */
async function writeData(
  directory: string,
  files: VolumeFiles,
  group: number | undefined,
  calls: FileCalls,
): Promise<string> {
  const stamp = new Date().toISOString().slice(0, 19).replace(/[-T:]/g, "_");
  const data = `..${stamp}.${randomBytes(4).toString("hex")}`;
  try {
    await fillData(posix.join(directory, data), files, group, calls);
    return data;
  } catch (error) {
    // A full disk would get one more of them with each attempt.
    await calls.removeTree(posix.join(directory, data)).catch(() => undefined);
    throw error;
  }
}

async function fillData(
  data: string,
  files: VolumeFiles,
  group: number | undefined,
  calls: FileCalls,
): Promise<void> {
  for (const path of ["", ...directoriesOf(files.keys())]) {
    const made = posix.join(data, path);
    if (!(await calls.makeDirectory(made, 0o700))) continue;
    if (group !== undefined) await calls.changeGroup(made, group);
    await calls.changeMode(made, group === undefined ? 0o755 : 0o2755);
  }
  const written = await Promise.allSettled(
    [...files].map(async ([path, { content, mode }]) => {
      const target = posix.join(data, path);
      await calls.createFile(target, content, 0o600);
      if (group !== undefined) await calls.changeGroup(target, group);
      await calls.changeMode(target, mode);
    }),
  );
  // All have ended, so that none comes after the removal.
  for (const result of written) if (result.status === "rejected") throw result.reason;
}

/** Those above the paths, the upper ones first. */
function directoriesOf(paths: Iterable<string>): readonly string[] {
  const all = new Set<string>();
  for (const path of paths) {
    const parts = path.split("/").slice(0, -1);
    for (let depth = 1; depth <= parts.length; depth += 1) all.add(parts.slice(0, depth).join("/"));
  }
  return [...all];
}

/** Makes the links that containers see, and removes those of files that are gone. */
async function showNames(
  directory: string,
  { shown, kept }: { readonly shown: ReadonlySet<string>; readonly kept: ReadonlySet<string> },
  calls: FileCalls,
): Promise<void> {
  const present = await calls.list(directory);
  for (const name of shown) {
    if (!present.includes(name))
      await calls.makeLink(posix.join(dataLink, name), posix.join(directory, name));
  }
  for (const name of present) {
    if (name.startsWith("..") || shown.has(name)) continue;
    const path = posix.join(directory, name);
    // To remove a directory unmounts what running containers have mounted there.
    const isKept = kept.has(name) && (await calls.look(path))?.kind === "directory";
    if (!isKept) await calls.removeTree(path);
  }
}
