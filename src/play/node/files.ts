/** Files that `play` makes on this host, as the kubelet would: records of pods, logs, and what containers mount. */
import { type Stats, constants } from "node:fs";
import { mkdir, open, readdir, stat } from "node:fs/promises";
import { ShimError } from "../../lib/errors.js";
import { writeFileAtomically } from "../../lib/files/atomic-file.js";
import { hasCode, unlessMissing } from "../../lib/files/file-errors.js";
import { checkCgroups, makeCgroup, removeCgroup } from "./cgroups.js";
import { type FileCalls, hostFileCalls } from "./file-calls.js";
import {
  type MountedFiles,
  mountSubPath,
  prepareOwnVolume,
  removeMountedTree,
  writeMountedFile,
} from "./mounted-files.js";
import { readBelow } from "./open-below.js";
import type { CgroupDriverName } from "../cri/client.js";
import type { PodCgroup } from "../pod-config/pod-cgroup.js";
import type { HostPathType } from "../pod-config/volumes.js";

/** Files of this host, wherever the engine is. All paths are absolute, and play's own. */
export interface HostFiles {
  exists(path: string): Promise<boolean>;
  /** The names in a directory, in order; none when it is missing. */
  list(path: string): Promise<readonly string[]>;
  /** Makes its parents, too; all users may read it. */
  makeDirectory(path: string): Promise<void>;
  /**
   * Only root may read it. A kill leaves the old text or the new, and so does a power cut, unless `flush` is `never`.
   */
  replaceFile(path: string, text: string, options?: { readonly flush: "never" }): Promise<void>;
  /** Undefined when there is none. Throws `exhausted` for more than `limitBytes`. */
  readFile(path: string, limitBytes: number): Promise<string | undefined>;
  /** For reading while it grows. Undefined when there is none. Throws `invalid` for what is not a file. */
  openFile(path: string): Promise<GrowingFile | undefined>;
  /** The last `bytes` of a file; empty when there is none, and for a directory or a pipe. */
  readTail(path: string, bytes: number): Promise<string>;
  /** Deletes a directory that may be missing, and unmounts all below it first. */
  removeTree(path: string): Promise<void>;
  /** Throws `unsupported` with the reason when cgroups of pods cannot be made for the engine's driver. */
  checkCgroups(driver: CgroupDriverName): Promise<void>;
  /** Makes the cgroup, if it is missing, and sets its limits. */
  makeCgroup(cgroup: PodCgroup): Promise<void>;
  /** Removes the cgroup of the pod with this `podId`, if there is one. Throws `precondition` when a process is in it. */
  removeCgroup(id: string): Promise<void>;
}

export interface GrowingFile extends AsyncDisposable {
  size(): Promise<number>;
  /** Up to `bytes` from there on; empty at the end. */
  read(offset: number, bytes: number): Promise<Buffer>;
  /** Whether another file is now at its path: this one was rotated. */
  isReplaced(): Promise<boolean>;
}

/** What containers mount, for an engine that sees this host's files. */
export function mountedFilesOf(calls: FileCalls): MountedFiles {
  return {
    writeFile: (path, text, mode) => writeMountedFile(path, Buffer.from(text), mode, calls),
    rewriteFile: (path, text) => calls.rewriteFile(path, Buffer.from(text)),
    readTail,
    readBelow,
    prepareVolume: async (volume) => {
      if (volume.kind === "hostPath") await checkHostPath(volume.path, volume.type);
      else await prepareOwnVolume(volume, calls);
    },
    mountSubPath: (volumePath, subPath, target) => mountSubPath(volumePath, subPath, target, calls),
    diskUsage: (path) => calls.diskUsage(path),
    removeTree: (path) => removeMountedTree(path, calls),
  };
}

/** For an engine that sees this host's files. */
export const nodeFiles: HostFiles & MountedFiles = {
  ...mountedFilesOf(hostFileCalls),
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
  replaceFile: (path, text, { flush = "first" }: { readonly flush?: "first" | "never" } = {}) =>
    writeFileAtomically(path, text, {
      mode: 0o600,
      temporaryPrefix: ".dockershim-",
      directoryMode: 0o750,
      flush,
    }),
  readFile: readWhole,
  openFile,
  checkCgroups: (driver) => checkCgroups(driver),
  makeCgroup: (cgroup) => makeCgroup(cgroup),
  removeCgroup: (id) => removeCgroup(id),
};

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
  if (!is(stats)) throw new ShimError("invalid", `use hostPath "${path}": it is not a ${what}`);
}

async function readWhole(path: string, limitBytes: number): Promise<string | undefined> {
  await using file = await open(path, "r").catch(unlessMissing);
  if (file === undefined) return undefined;
  const { size } = await file.stat();
  if (size > limitBytes)
    throw new ShimError("exhausted", `read "${path}": it has more than ${limitBytes} bytes`);
  return await file.readFile("utf8");
}

/** A volume can be mounted in place of a file of play: a container's pipe would block the open for ever. */
const readFlags = constants.O_RDONLY | constants.O_NONBLOCK;

async function openFile(path: string): Promise<GrowingFile | undefined> {
  const file = await open(path, readFlags).catch(unlessMissing);
  if (file === undefined) return undefined;
  const opened = await file.stat({ bigint: true });
  if (!opened.isFile()) {
    await file.close();
    throw new ShimError("invalid", `read "${path}": it is not a file`);
  }
  return {
    size: async () => (await file.stat()).size,
    read: async (offset, bytes) => {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(bytes), 0, bytes, offset);
      return buffer.subarray(0, bytesRead);
    },
    isReplaced: async () => {
      const present = await stat(path, { bigint: true }).catch(unlessMissing);
      return present !== undefined && (present.ino !== opened.ino || present.dev !== opened.dev);
    },
    [Symbol.asyncDispose]: () => file.close(),
  };
}

async function readTail(path: string, bytes: number): Promise<string> {
  if ((await statOrUndefined(path)) === undefined) return "";
  await using file = await open(path, readFlags);
  const stats = await file.stat();
  if (!stats.isFile()) return "";
  const { size } = stats;
  const length = Math.min(size, bytes);
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, size - length);
  return buffer.toString("utf8", 0, bytesRead);
}

async function statOrUndefined(path: string): Promise<Stats | undefined> {
  return stat(path).catch(unlessMissing);
}
