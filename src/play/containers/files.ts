/** Files that `play` makes on the node, as the kubelet would. */
import type { Stats } from "node:fs";
import { chmod, chown, lstat, mkdir, open, readFile, realpath, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join, sep } from "node:path";
import { messageOf, ShimError } from "../../shim/lib/errors.js";
import type { HostPathType, VolumePreparation } from "./volumes.js";

/** All paths are absolute. */
export interface PlayFiles {
  exists(path: string): Promise<boolean>;
  /** Makes its parents, too; all users may read it. */
  makeDirectory(path: string): Promise<void>;
  /**
   * Makes its parents, too, which only root may enter. An existing file keeps its inode, which may be
   * mounted.
   */
  writeFile(path: string, text: string, mode: number): Promise<void>;
  prepareVolume(volume: VolumePreparation): Promise<void>;
  /** Resolves `subPath` of a volume; makes a missing directory. Refuses links that leave the volume. */
  resolveSubPath(volumePath: string, subPath: string): Promise<string>;
  /** The first of `directories` that contains `path` at any depth, by inode and not by name. */
  firstAbove(path: string, directories: readonly string[]): Promise<string | undefined>;
  /** Deletes a directory that may be missing. Refuses while anything is mounted below it. */
  removeTree(path: string): Promise<void>;
  /** The last `bytes` of a file; empty when there is none. */
  readTail(path: string, bytes: number): Promise<string>;
}

export const nodeFiles: PlayFiles = {
  exists: async (path) => (await statOrUndefined(path)) !== undefined,
  makeDirectory: async (path) => {
    await mkdir(path, { recursive: true, mode: 0o755 });
  },
  writeFile: async (path, text, mode) => {
    await mkdir(dirname(path), { recursive: true, mode: 0o750 });
    await writeFile(path, text, { mode });
    await chmod(path, mode); // The umask took bits away.
  },
  prepareVolume: async (volume) => {
    if (volume.kind === "emptyDir") await makeEmptyDir(volume.path, volume.group);
    else await checkHostPath(volume.path, volume.type);
  },
  resolveSubPath,
  firstAbove,
  removeTree,
  readTail,
};

/** All users may write, as with the kubelet. With fsGroup, new files in it belong to that group. */
async function makeEmptyDir(path: string, group: number | undefined): Promise<void> {
  if ((await statOrUndefined(path)) !== undefined) return;
  await mkdir(dirname(path), { recursive: true, mode: 0o750 });
  await mkdir(path);
  if (group === undefined) {
    await chmod(path, 0o777);
    return;
  }
  const { uid } = await stat(path);
  await chown(path, uid, group);
  await chmod(path, 0o2777);
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

/**
 * A container of the pod may have made a link in the volume, so each part is checked before it is followed. A
 * part must not be replaced meanwhile: see sub-path.ts.
 */
async function resolveSubPath(volumePath: string, subPath: string): Promise<string> {
  const action = `mount subPath "${subPath}" of "${volumePath}"`;
  try {
    const root = await realpath(volumePath);
    const { mode } = await stat(root);
    let current = root;
    for (const part of subPath.split("/").filter((name) => name !== "" && name !== ".")) {
      current = join(current, part);
      const stats = await lstatOrUndefined(current);
      if (stats === undefined) {
        await mkdir(current);
        await chmod(current, mode & 0o777);
      } else if (stats.isSymbolicLink()) {
        current = await realpath(current);
      }
      if (current !== root && !current.startsWith(root + sep)) {
        throw new ShimError("invalid", `${action}: a link leads out of the volume, to "${current}"`);
      }
    }
    return current;
  } catch (error) {
    if (error instanceof ShimError) throw error;
    throw new ShimError("invalid", `${action}: ${messageOf(error)}`, {}, { cause: error });
  }
}

async function firstAbove(path: string, directories: readonly string[]): Promise<string | undefined> {
  const above = new Set<string>();
  for (let at = path; at !== dirname(at);) {
    at = dirname(at);
    above.add(identity(await stat(at)));
  }
  for (const directory of directories) {
    const stats = await statOrUndefined(directory);
    if (stats !== undefined && above.has(identity(stats))) return directory;
  }
  return undefined;
}

/** The same for all mounts of a directory. */
function identity({ dev, ino }: Stats): string {
  return `${dev}:${ino}`;
}

async function removeTree(path: string): Promise<void> {
  if ((await lstatOrUndefined(path)) === undefined) return;
  const real = await realpath(path);
  const mounts = (await readFile("/proc/self/mountinfo", "utf8"))
    .split("\n")
    .map((line) => unescapeMountPath(line.split(" ")[4] ?? ""))
    .filter((mountPoint) => mountPoint === real || mountPoint.startsWith(real + sep));
  if (mounts.length > 0) {
    const list = mounts.map((mount) => `"${mount}"`).join(", ");
    throw new ShimError(
      "precondition",
      `remove "${path}": still mounted below it: ${list}; unmount it first`,
    );
  }
  await rm(path, { recursive: true, force: true });
}

/** The kernel writes blanks and backslashes as three octal digits. */
function unescapeMountPath(path: string): string {
  return path.replace(/\\([0-7]{3})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
}

async function readTail(path: string, bytes: number): Promise<string> {
  if ((await statOrUndefined(path)) === undefined) return "";
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
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
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}
