/** The files and directories that containers mount: volumes, /etc/hosts, termination messages. */
import { posix } from "node:path";
import { ShimError } from "../../lib/errors.js";
import { hasCode } from "../../lib/files/file-errors.js";
import type { FileCalls, FileStats } from "./file-calls.js";
import { writeObjectFiles } from "./atomic-writer.js";
import type { VolumePreparation } from "../pod-config/volumes.js";

/** All paths are absolute, on the engine's host, and play's own, but for hostPath volumes. */
export interface MountedFiles {
  /** Makes its parents, too, which only root may enter. An existing file keeps its inode, which may be mounted. */
  writeFile(path: string, text: string, mode: number): Promise<void>;
  /** Gives an existing file another text; its inode stays. Answers false when there is none. */
  rewriteFile(path: string, text: string): Promise<boolean>;
  /** The text of a file of a volume of containers. Throws `notFound`, `invalid` or `exhausted`. */
  readBelow(volumePath: string, path: string, limitBytes: number): Promise<string>;
  /** The last `bytes` of a file; empty when there is none, and for a directory or a pipe. */
  readTail(path: string, bytes: number): Promise<string>;
  /** Can be repeated: it keeps data, and brings the files of objects up to date. */
  prepareVolume(volume: VolumePreparation): Promise<void>;
  /** Mounts `subPath` at `target`. Refuses links that leave the volume. Answers the path for the container. */
  mountSubPath(volumePath: string, subPath: string, target: string): Promise<string>;
  /** Bytes on disk of a directory, without other file systems below it. */
  diskUsage(path: string): Promise<bigint>;
  /** Deletes a directory that may be missing, and unmounts all below it first. */
  removeTree(path: string): Promise<void>;
}

type OwnVolume = Exclude<VolumePreparation, { readonly kind: "hostPath" }>;

/** Volumes of all kinds but hostPath, which is not a file of play. */
export async function prepareOwnVolume(volume: OwnVolume, calls: FileCalls): Promise<void> {
  switch (volume.kind) {
    case "claim":
      await makeOpenDirectory(volume.path, undefined, calls);
      if (volume.group !== undefined) await calls.giveToGroup(volume.path, volume.group, volume);
      return;
    case "emptyDir":
      await makeVolumeDirectory(volume, calls);
      return;
    case "files":
      await makeVolumeDirectory(volume, calls);
      await writeObjectFiles(volume, calls);
  }
}

async function makeVolumeDirectory(
  volume: {
    readonly path: string;
    readonly group: number | undefined;
    readonly memoryBytes: bigint | undefined;
  },
  calls: FileCalls,
): Promise<void> {
  const { path, group, memoryBytes } = volume;
  await makeOpenDirectory(path, group, calls);
  if (memoryBytes === undefined || (await calls.isMountPoint(path))) return;
  await calls.mountMemory(path, memoryBytes);
  await openToAll(path, group, calls);
}

async function makeOpenDirectory(path: string, group: number | undefined, calls: FileCalls): Promise<void> {
  await makeDirectories(posix.dirname(path), calls);
  // False when it is there: pods that start side by side share a claim.
  if (await calls.makeDirectory(path, 0o755)) await openToAll(path, group, calls);
}

/** All users may write, as with the kubelet. With fsGroup, new files in it belong to that group. */
export async function openToAll(path: string, group: number | undefined, calls: FileCalls): Promise<void> {
  if (group !== undefined) await calls.changeGroup(path, group);
  await calls.changeMode(path, group === undefined ? 0o777 : 0o2777);
}

/** Only root may enter those that it makes. */
async function makeDirectories(path: string, calls: FileCalls): Promise<void> {
  try {
    await calls.makeDirectory(path, 0o750);
  } catch (error) {
    if (!hasCode(error, "ENOENT") || path === "/") throw error;
    await makeDirectories(posix.dirname(path), calls);
    await calls.makeDirectory(path, 0o750);
  }
}

export async function writeMountedFile(
  path: string,
  content: Buffer,
  mode: number,
  calls: FileCalls,
): Promise<void> {
  if (!(await calls.rewriteFile(path, content))) {
    await makeDirectories(posix.dirname(path), calls);
    try {
      await calls.createFile(path, content, mode);
    } catch (error) {
      if (!hasCode(error, "EEXIST")) {
        await calls.unlink(path).catch(() => undefined); // What a full disk has left of it.
        throw error;
      }
      // Made since, as by another play of the same files.
      if (!(await calls.rewriteFile(path, content))) throw error;
    }
  }
  await calls.changeMode(path, mode); // The umask took bits away.
}

export async function mountSubPath(
  volumePath: string,
  subPath: string,
  target: string,
  calls: FileCalls,
): Promise<string> {
  const wanted = await calls.findSubPath(volumePath, subPath);
  const present = await calls.look(target);
  if (present !== undefined) {
    if (present.identity === wanted.identity) return target;
    await unmountBelow(target, calls);
    // The empty file or directory on which it was mounted.
    if ((await calls.look(target))?.kind === "directory") await calls.removeDirectory(target);
    else await calls.unlink(target);
  }
  await makeDirectories(posix.dirname(target), calls);
  if (wanted.kind === "directory") await calls.makeDirectory(target, 0o750);
  else await calls.createFile(target, Buffer.alloc(0), 0o640);
  await calls.bindSubPath(volumePath, subPath, target);
  return target;
}

export async function removeMountedTree(path: string, calls: FileCalls): Promise<void> {
  const found = await calls.look(path);
  if (found === undefined || (await removeSingle(path, found, calls))) return;
  const hadMounts = await unmountBelow(path, calls);
  const left = hadMounts ? await calls.mountPointsBelow(path) : [];
  if (left.length > 0) {
    const list = left.map((mount) => `"${mount}"`).join(", ");
    throw new ShimError("precondition", `remove "${path}": still mounted below it: ${list}`);
  }
  await calls.removeTree(path);
}

/** Removes a file or an empty directory. False when it is neither, or something is mounted on it. */
async function removeSingle(
  path: string,
  { kind }: Pick<FileStats, "kind">,
  calls: Pick<FileCalls, "removeDirectory" | "unlink">,
): Promise<boolean> {
  try {
    await (kind === "directory" ? calls.removeDirectory(path) : calls.unlink(path));
    return true;
  } catch (error) {
    if (hasCode(error, "ENOTEMPTY", "EEXIST", "EBUSY", "ENOENT")) return false;
    throw error;
  }
}

/** Unmounts all that is mounted at `path` and below it, the innermost first. Answers whether there was anything. */
async function unmountBelow(path: string, calls: FileCalls): Promise<boolean> {
  const points = await calls.mountPointsBelow(path);
  // Of two mounts at one place, the later one is the last in the list, and on top.
  for (const point of [...points].reverse()) await calls.unmount(point);
  return points.length > 0;
}
