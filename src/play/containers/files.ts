/** Files that `play` makes on the node, as the kubelet would. */
import { type Stats, constants } from "node:fs";
import {
  chmod,
  chown,
  lstat,
  mkdir,
  open,
  readdir,
  rm,
  rmdir,
  stat,
  unlink,
  writeFile,
} from "node:fs/promises";
import { dirname } from "node:path";
import { ShimError } from "../../shim/lib/errors.js";
import { writeFileAtomically } from "../../shim/lib/files/atomic-file.js";
import { hasCode } from "../../shim/lib/files/file-errors.js";
import { checkCgroups, makeCgroup, removeCgroup } from "./cgroups.js";
import { bindDescriptor, isMountPoint, mountMemory, mountPointsBelow, run, unmountBelow } from "./mounts.js";
import { writeObjectFiles } from "./object-files.js";
import { giveToGroup, openSubPath } from "./open-below.js";
import type { CgroupDriverName, PodCgroup } from "./pod-cgroup.js";
import type { HostPathType, VolumePreparation } from "./volumes.js";

/** All paths are absolute. Those that are changed are play's own, but for hostPath volumes. */
export interface PlayFiles {
  exists(path: string): Promise<boolean>;
  /** The names in a directory, in order; none when it is missing. */
  list(path: string): Promise<readonly string[]>;
  /** Makes its parents, too; all users may read it. */
  makeDirectory(path: string): Promise<void>;
  /**
   * Makes its parents, too, which only root may enter. An existing file keeps its inode, which may be
   * mounted.
   */
  writeFile(path: string, text: string, mode: number): Promise<void>;
  /**
   * Gives an existing file another text; its inode stays, and its readers never find it empty. Makes no file:
   * answers false when there is none.
   */
  rewriteFile(path: string, text: string): Promise<boolean>;
  /** Only root may read it. A kill leaves the old text or the new. */
  replaceFile(path: string, text: string): Promise<void>;
  /** Undefined when there is none. Throws `exhausted` for more than `limitBytes`. */
  readFile(path: string, limitBytes: number): Promise<string | undefined>;
  /** For reading while it grows. Undefined when there is none. Throws `invalid` for what is no file. */
  openFile(path: string): Promise<GrowingFile | undefined>;
  /** The last `bytes` of a file; empty when there is none, and for a directory or a pipe. */
  readTail(path: string, bytes: number): Promise<string>;
  /** Can be repeated: it keeps data, and brings the files of objects up to date. */
  prepareVolume(volume: VolumePreparation): Promise<void>;
  /**
   * Mounts `subPath` of a volume at `target`, with its parents, unless that is mounted there. Makes a missing
   * directory. Refuses links that leave the volume.
   */
  mountSubPath(volumePath: string, subPath: string, target: string): Promise<void>;
  /** Bytes on disk of a directory, without other file systems below it. */
  diskUsage(path: string): Promise<bigint>;
  /** Deletes a directory that may be missing, and unmounts all below it first. */
  removeTree(path: string): Promise<void>;
  /** Throws `unsupported` with the reason when cgroups of pods cannot be made for the engine's driver. */
  checkCgroups(driver: CgroupDriverName): Promise<void>;
  /** Makes the cgroup, if it is missing, and sets its limits. */
  makeCgroup(cgroup: PodCgroup): Promise<void>;
  /** Of the pod with this uid, if there is one. Throws `precondition` when a process is in it. */
  removeCgroup(uid: string): Promise<void>;
}

export interface GrowingFile extends AsyncDisposable {
  size(): Promise<number>;
  /** Up to `bytes` from there on; empty at the end. */
  read(offset: number, bytes: number): Promise<Buffer>;
  /** Whether another file is now at its path: this one was rotated. */
  isReplaced(): Promise<boolean>;
}

export const nodeFiles: PlayFiles = {
  exists: async (path) => (await statOrUndefined(path)) !== undefined,
  list: async (path) => {
    try {
      return (await readdir(path)).sort();
    } catch (error) {
      if (hasCode(error, "ENOENT")) return [];
      throw error;
    }
  },
  makeDirectory: async (path) => {
    await mkdir(path, { recursive: true, mode: 0o755 });
  },
  writeFile: async (path, text, mode) => {
    await mkdir(dirname(path), { recursive: true, mode: 0o750 });
    await writeFile(path, text, { mode });
    await chmod(path, mode); // The umask took bits away.
  },
  rewriteFile,
  replaceFile: (path, text) =>
    writeFileAtomically(path, text, { mode: 0o600, temporaryPrefix: ".dockershim-", directoryMode: 0o750 }),
  readFile: readWhole,
  openFile,
  readTail,
  prepareVolume,
  mountSubPath,
  diskUsage: async (path) =>
    BigInt(/^\d+/.exec(await run("du", ["-sx", "--block-size=1", "--", path]))?.[0] ?? "0"),
  removeTree,
  checkCgroups: (driver) => checkCgroups(driver),
  makeCgroup: (cgroup) => makeCgroup(cgroup),
  removeCgroup: (uid) => removeCgroup(uid),
};

async function prepareVolume(volume: VolumePreparation): Promise<void> {
  switch (volume.kind) {
    case "hostPath":
      await checkHostPath(volume.path, volume.type);
      return;
    case "claim":
      await makeOpenDirectory(volume.path, undefined);
      if (volume.group !== undefined) await giveToGroup(volume.path, volume.group, volume.trustRoot);
      return;
    case "emptyDir":
      await makeVolumeDirectory(volume);
      return;
    case "files":
      await makeVolumeDirectory(volume);
      await writeObjectFiles(volume.path, volume.files, volume.group);
  }
}

async function makeVolumeDirectory(volume: {
  readonly path: string;
  readonly group: number | undefined;
  readonly memoryBytes: bigint | undefined;
}): Promise<void> {
  const { path, group, memoryBytes } = volume;
  await makeOpenDirectory(path, group);
  if (memoryBytes === undefined || (await isMountPoint(path))) return;
  await mountMemory(path, memoryBytes);
  await openToAll(path, group);
}

async function makeOpenDirectory(path: string, group: number | undefined): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o750 });
  // Undefined when it is there: pods that start side by side share a claim.
  const made = await mkdir(path, { recursive: true });
  if (made !== undefined) await openToAll(path, group);
}

/** All users may write, as with the kubelet. With fsGroup, new files in it belong to that group. */
async function openToAll(path: string, group: number | undefined): Promise<void> {
  if (group !== undefined) await chown(path, (await stat(path)).uid, group);
  await chmod(path, group === undefined ? 0o777 : 0o2777);
}

const kinds: Readonly<
  Record<Exclude<HostPathType, "">, { readonly is: (stats: Stats) => boolean; readonly what: string }>
> = {
  DirectoryOrCreate: { is: (stats) => stats.isDirectory(), what: "directory" },
  Directory: { is: (stats) => stats.isDirectory(), what: "directory" },
  FileOrCreate: { is: (stats) => stats.isFile(), what: "file" },
  File: { is: (stats) => stats.isFile(), what: "file" },
  Socket: { is: (stats) => stats.isSocket(), what: "socket" },
  CharDevice: { is: (stats) => stats.isCharacterDevice(), what: "character device" },
  BlockDevice: { is: (stats) => stats.isBlockDevice(), what: "block device" },
};

async function checkHostPath(path: string, type: HostPathType): Promise<void> {
  // Kubernetes checks nothing without a type; the runtime makes a directory of a missing path.
  if (type === "") return;
  let stats = await statOrUndefined(path);
  if (stats === undefined && type === "DirectoryOrCreate")
    await mkdir(path, { recursive: true, mode: 0o755 });
  if (stats === undefined && type === "FileOrCreate") await (await open(path, "a", 0o644)).close();
  stats ??= await statOrUndefined(path);
  const { is, what } = kinds[type];
  if (stats === undefined)
    throw new ShimError("invalid", `use hostPath "${path}": no such ${what} on this node`);
  if (!is(stats)) throw new ShimError("invalid", `use hostPath "${path}": it is no ${what}`);
}

async function mountSubPath(volumePath: string, subPath: string, target: string): Promise<void> {
  const source = await openSubPath(volumePath, subPath);
  try {
    const wanted = await source.stat();
    const present = await lstatOrUndefined(target);
    if (present !== undefined) {
      if (present.dev === wanted.dev && present.ino === wanted.ino) return;
      await unmountBelow(target);
      await removePlace(target);
    }
    await mkdir(dirname(target), { recursive: true, mode: 0o750 });
    if (wanted.isDirectory()) await mkdir(target, { mode: 0o750 });
    else await (await open(target, "wx", 0o640)).close();
    await bindDescriptor(source.fd, target);
  } finally {
    await source.close();
  }
}

/** The empty file or directory on which a sub path was mounted. */
async function removePlace(path: string): Promise<void> {
  if ((await lstat(path)).isDirectory()) await rmdir(path);
  else await unlink(path);
}

async function removeTree(path: string): Promise<void> {
  if ((await lstatOrUndefined(path)) === undefined) return;
  await unmountBelow(path);
  const left = await mountPointsBelow(path);
  if (left.length > 0) {
    const list = left.map((mount) => `"${mount}"`).join(", ");
    throw new ShimError("precondition", `remove "${path}": still mounted below it: ${list}`);
  }
  await rm(path, { recursive: true, force: true });
}

async function rewriteFile(path: string, text: string): Promise<boolean> {
  const file = await undefinedIfMissing(open(path, "r+"));
  if (file === undefined) return false;
  try {
    const bytes = Buffer.from(text);
    await file.write(bytes, 0, bytes.length, 0);
    await file.truncate(bytes.length);
    return true;
  } finally {
    await file.close();
  }
}

async function readWhole(path: string, limitBytes: number): Promise<string | undefined> {
  if ((await statOrUndefined(path)) === undefined) return undefined;
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    if (size > limitBytes)
      throw new ShimError("exhausted", `read "${path}": it has more than ${limitBytes} bytes`);
    return await file.readFile("utf8");
  } finally {
    await file.close();
  }
}

/** A volume can be mounted in place of a file of play: a container's pipe would block the open for ever. */
const readFlags = constants.O_RDONLY | constants.O_NONBLOCK;

async function openFile(path: string): Promise<GrowingFile | undefined> {
  const file = await undefinedIfMissing(open(path, readFlags));
  if (file === undefined) return undefined;
  const opened = await file.stat({ bigint: true });
  if (!opened.isFile()) {
    await file.close();
    throw new ShimError("invalid", `read "${path}": it is no file`);
  }
  return {
    size: async () => (await file.stat()).size,
    read: async (offset, bytes) => {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(bytes), 0, bytes, offset);
      return buffer.subarray(0, bytesRead);
    },
    isReplaced: async () => {
      const present = await undefinedIfMissing(stat(path, { bigint: true }));
      return present !== undefined && (present.ino !== opened.ino || present.dev !== opened.dev);
    },
    [Symbol.asyncDispose]: () => file.close(),
  };
}

async function readTail(path: string, bytes: number): Promise<string> {
  if ((await statOrUndefined(path)) === undefined) return "";
  const file = await open(path, readFlags);
  try {
    const stats = await file.stat();
    if (!stats.isFile()) return "";
    const { size } = stats;
    const length = Math.min(size, bytes);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, size - length);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await file.close();
  }
}

async function statOrUndefined(path: string): Promise<Stats | undefined> {
  return undefinedIfMissing(stat(path));
}

async function lstatOrUndefined(path: string): Promise<Stats | undefined> {
  return undefinedIfMissing(lstat(path));
}

async function undefinedIfMissing<T>(promise: Promise<T>): Promise<T | undefined> {
  try {
    return await promise;
  } catch (error) {
    if (hasCode(error, "ENOENT")) return undefined;
    throw error;
  }
}
