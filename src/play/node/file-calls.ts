/** The calls by which volumes are made. Failures have the `code` of the system, such as ENOENT. */
import { type BigIntStats } from "node:fs";
import {
  chmod,
  chown,
  lchown,
  lstat,
  mkdir,
  open,
  readFile,
  readdir,
  readlink,
  rename,
  rm,
  rmdir,
  stat,
  symlink,
  unlink,
  writeFile,
} from "node:fs/promises";
import type { Owner } from "../../domain/node-facts.js";
import { hasCode, unlessMissing } from "../../lib/files/file-errors.js";
import { diskUsage, mountMemory, mountOpen, unmount } from "../../lib/linux/helper-verbs.js";
import { isMountPoint, mountPointsBelow } from "./mounts.js";
import { giveToGroup } from "./fs-group.js";
import { openSubPath } from "./open-below.js";

export type FileKind = "file" | "directory" | "link" | "socket" | "pipe" | "characterDevice" | "blockDevice";

export interface FileStats {
  readonly kind: FileKind;
  /** Permission bits, with set-id and sticky bits. */
  readonly mode: number;
  /** Bytes. */
  readonly size: number;
  /** Equal for two paths of one file. */
  readonly identity: string;
}

/** Paths are absolute. */
export interface FileCalls {
  /** The facts of the path; of a link, not of its target. Undefined when nothing is there. */
  look(path: string): Promise<FileStats | undefined>;
  /** The names in a directory. */
  list(path: string): Promise<readonly string[]>;
  readFile(path: string): Promise<Buffer>;
  readLink(path: string): Promise<string>;
  /** False when something is there. The parent must exist. */
  makeDirectory(path: string, mode: number): Promise<boolean>;
  /** EEXIST when something is there. */
  createFile(path: string, content: Buffer, mode: number): Promise<void>;
  /** Keeps the inode; readers never find the file empty. False when there is none. */
  rewriteFile(path: string, content: Buffer): Promise<boolean>;
  rename(from: string, to: string): Promise<void>;
  makeLink(target: string, path: string): Promise<void>;
  unlink(path: string): Promise<void>;
  removeDirectory(path: string): Promise<void>;
  /** With all below it. Nothing may be mounted there. */
  removeTree(path: string): Promise<void>;
  changeMode(path: string, mode: number): Promise<void>;
  changeGroup(path: string, group: number): Promise<void>;
  /** See `giveToGroup` in fs-group.ts. */
  giveToGroup(path: string, group: number, options: { readonly trustRoot: boolean }): Promise<void>;
  /** Bytes on disk, without other file systems below. */
  diskUsage(path: string): Promise<bigint>;
  /** See `mountPointsBelow` in mounts.ts. */
  mountPointsBelow(path: string): Promise<readonly string[]>;
  isMountPoint(path: string): Promise<boolean>;
  /** A file system in memory. */
  mountMemory(path: string, sizeBytes: bigint): Promise<void>;
  /** Makes missing directories. Throws for a link that leaves the volume. */
  findSubPath(volumePath: string, subPath: string): Promise<FileStats>;
  /** Mounts it at `target`, which is there. No name is looked up twice: containers may make links. */
  bindSubPath(volumePath: string, subPath: string, target: string): Promise<void>;
  unmount(path: string): Promise<void>;
}

export const hostFileCalls: FileCalls = {
  look: async (path) => {
    const stats = await lstat(path, { bigint: true }).catch(unlessMissing);
    return stats && statsOf(stats);
  },
  list: (path) => readdir(path),
  readFile: (path) => readFile(path),
  readLink: (path) => readlink(path),
  makeDirectory: async (path, mode) => {
    try {
      await mkdir(path, { mode });
      return true;
    } catch (error) {
      if (hasCode(error, "EEXIST")) return false;
      throw error;
    }
  },
  createFile: (path, content, mode) => writeFile(path, content, { mode, flag: "wx" }),
  rewriteFile,
  rename: (from, to) => rename(from, to),
  makeLink: (target, path) => symlink(target, path),
  unlink: (path) => unlink(path),
  removeDirectory: (path) => rmdir(path),
  removeTree: (path) => rm(path, { recursive: true, force: true }),
  changeMode: (path, mode) => chmod(path, mode),
  changeGroup: async (path, group) => chown(path, (await stat(path)).uid, group),
  giveToGroup: (path, group, { trustRoot }) => giveToGroup(path, group, trustRoot),
  diskUsage,
  mountPointsBelow,
  isMountPoint,
  mountMemory: (path, sizeBytes) => mountMemory(path, `size=${sizeBytes}`),
  ...subPathCalls(undefined),
  unmount,
};

/** For an engine with `userns-remap`: what is made belongs to root as containers see it. */
export function remappedFileCalls(root: Owner): FileCalls {
  const { uid, gid } = root;
  const calls = hostFileCalls;
  return {
    ...calls,
    ...subPathCalls(root),
    makeDirectory: async (path, mode) => {
      const isNew = await calls.makeDirectory(path, mode);
      if (isNew) await lchown(path, uid, gid);
      return isNew;
    },
    createFile: async (path, content, mode) => {
      await calls.createFile(path, content, mode);
      await lchown(path, uid, gid);
    },
    changeGroup: (path, group) => calls.changeGroup(path, gid + group),
    giveToGroup: (path, group, options) => calls.giveToGroup(path, gid + group, options),
    mountMemory: async (path, sizeBytes) => {
      await calls.mountMemory(path, sizeBytes);
      await lchown(path, uid, gid);
    },
  };
}

function subPathCalls(owner: Owner | undefined): Pick<FileCalls, "findSubPath" | "bindSubPath"> {
  return {
    findSubPath: async (volumePath, subPath) => {
      await using source = await openSubPath(volumePath, subPath, owner);
      return statsOf(await source.stat({ bigint: true }));
    },
    bindSubPath: async (volumePath, subPath, target) => {
      await using source = await openSubPath(volumePath, subPath, owner);
      await mountOpen(source.fd, target);
    },
  };
}

function statsOf(stats: BigIntStats): FileStats {
  return {
    kind: fileKind(Number(stats.mode)),
    mode: Number(stats.mode) & 0o7777,
    size: Number(stats.size),
    identity: `${stats.dev}:${stats.ino}`,
  };
}

const kinds: Readonly<Record<number, FileKind>> = {
  0o010000: "pipe",
  0o020000: "characterDevice",
  0o040000: "directory",
  0o060000: "blockDevice",
  0o120000: "link",
  0o140000: "socket",
};

/** By the type in the mode of Linux. */
export function fileKind(mode: number): FileKind {
  return kinds[mode & 0o170000] ?? "file";
}

async function rewriteFile(path: string, content: Buffer): Promise<boolean> {
  try {
    await using file = await open(path, "r+");
    await file.writeFile(content); // Unlike `write`, it rejects when only a part had room.
    await file.truncate(content.length);
    return true;
  } catch (error) {
    if (hasCode(error, "ENOENT")) return false;
    throw error;
  }
}
