/** What a container has changed in its root file system, in the form of CRI-O's checkpoints. */
import { constants, type Stats } from "node:fs";
import { type FileHandle, open, opendir, readlink, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ShimError } from "../../lib/errors.js";
import { hasCode } from "../../lib/files/file-errors.js";
import { addContent, addEntry, headerOf, type TarFile, writeTar } from "./tar-file.js";

export const rootChangesName = "rootfs-diff.tar";
/** Paths of the image that the container does not have any more, as a list in JSON. */
export const deletedFilesName = "deleted.files";

/** As lines of /proc/PID/uid_map: ids of the container as those of the node. */
export interface IdMaps {
  readonly uids: string;
  readonly gids: string;
}

/** A file with more holes is left out, after some: it would take more of the disk than it has. */
const largestExpansion = 8;
const holesLimitBytes = 64 * 1024 * 1024;
/** Each level takes an open file. */
const levelLimit = 128;
const deletedBytesLimit = 16 * 1024 * 1024;
const linkedBytesLimit = 64 * 1024 * 1024;
const chunkBytes = 256 * 1024;
const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants;
/** Opens the name and not what it is of: to open a device, as a watchdog, has effects. */
const O_PATH = 0o10000000;

/**
 * Writes both files into `work`, each only where it has something, from the upper directory of the container's
 * overlay. Its processes may change all of it meanwhile: no link is followed, and what is gone is left out.
 * Returns how many files are left out for their holes, names or depth.
 */
export async function writeRootChanges(
  upper: string,
  work: string,
  maps: IdMaps,
  signal: AbortSignal,
): Promise<number> {
  const path = join(work, rootChangesName);
  let changes!: RootChanges;
  const fill = async (to: TarFile): Promise<void> => {
    changes = new RootChanges(to, maps);
    await using root = await open(upper, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    await changes.addDirectory(root, "", 0);
  };
  await writeTar(path, fill, signal);
  if (changes.entries === 0) await rm(path);
  if (changes.deleted.length > 0)
    await writeFile(join(work, deletedFilesName), JSON.stringify(changes.deleted), { mode: 0o600 });
  return changes.omitted;
}

class RootChanges {
  readonly deleted: string[] = [];
  entries = 0;
  omitted = 0;
  #deletedBytes = 0;
  #linkedBytes = 0;
  #holesBytes = 0;
  /** Inode → name of the entry with its content, of files with several names. */
  readonly #linked = new Map<number, string>();
  readonly #uid: (id: number) => number;
  readonly #gid: (id: number) => number;

  constructor(
    private readonly to: TarFile,
    maps: IdMaps,
  ) {
    this.#uid = insideOf(maps.uids);
    this.#gid = insideOf(maps.gids);
  }

  /** What is in `directory`, whose name is `below` or begins with it. */
  async addDirectory(directory: FileHandle, below: string, level: number): Promise<void> {
    // Paths below it stay below it, whatever its name is now.
    const path = pathOf(directory);
    for await (const { name } of await opendir(path)) {
      this.to.signal.throwIfAborted();
      try {
        await this.#add(`${path}/${name}`, `${below}${name}`, level);
      } catch (error) {
        // Gone. A name that is not UTF-8 is not found either.
        if (!hasCode(error, "ENOENT", "EINVAL")) throw error;
        if (name.includes("\ufffd")) this.omitted += 1;
      }
    }
  }

  async #add(path: string, name: string, level: number): Promise<void> {
    await using opened = await open(path, O_PATH | O_NOFOLLOW);
    const found = await opened.stat();
    if (found.isDirectory()) await this.#addBelow(opened, found, name, level + 1);
    else if (found.isSymbolicLink()) await this.#addLink(found, name, await readlink(path));
    else if (found.isFile()) await this.#addFile(opened, found, name);
    else if (found.isCharacterDevice() && found.rdev === 0) this.#delete(`/${name}`);
  }

  async #addBelow(opened: FileHandle, found: Stats, name: string, level: number): Promise<void> {
    if (level > levelLimit) {
      this.omitted += 1;
      return;
    }
    await this.#addEntry(found, { name: `${name}/`, type: "directory" });
    await this.addDirectory(opened, `${name}/`, level);
  }

  async #addLink(found: Stats, name: string, linkname: string): Promise<void> {
    // What is not UTF-8 would be a link to another place.
    if (linkname.includes("\ufffd")) this.omitted += 1;
    else await this.#addEntry(found, { name, type: "symlink", linkname });
  }

  async #addFile(opened: FileHandle, found: Stats, name: string): Promise<void> {
    const { ino, nlink, size } = found;
    const linkname = this.#linked.get(ino);
    if (linkname !== undefined) return this.#addEntry(found, { name, type: "link", linkname });
    if (!this.#hasFewHoles(found)) {
      this.omitted += 1;
      return;
    }
    if (nlink > 1) this.#remember(ino, name);
    this.entries += 1;
    await using file = await open(pathOf(opened), O_RDONLY);
    await addContent(this.to, { ...this.#headerOf(found), name, size }, contentOf(file, size));
  }

  async #addEntry(found: Stats, header: Parameters<typeof addEntry>[1]): Promise<void> {
    this.entries += 1;
    await addEntry(this.to, { ...this.#headerOf(found), ...header });
  }

  #headerOf({ mode, mtime, uid, gid }: Stats) {
    return headerOf({ mode, mtime, uid: this.#uid(uid), gid: this.#gid(gid) });
  }

  #hasFewHoles({ size, blocks }: Stats): boolean {
    const bytes = Math.max(0, size - blocks * 512 * largestExpansion);
    if (bytes > holesLimitBytes - this.#holesBytes) return false;
    this.#holesBytes += bytes;
    return true;
  }

  #remember(inode: number, name: string): void {
    this.#linkedBytes = limited(this.#linkedBytes + name.length, linkedBytesLimit, "linked");
    this.#linked.set(inode, name);
  }

  #delete(path: string): void {
    this.#deletedBytes = limited(this.#deletedBytes + path.length, deletedBytesLimit, "deleted");
    this.deleted.push(path);
  }
}

/** Of that file, whatever has its name now. */
function pathOf({ fd }: FileHandle): string {
  return `/proc/self/fd/${fd}`;
}

function limited(bytes: number, limitBytes: number, which: string): number {
  if (bytes <= limitBytes) return bytes;
  throw new ShimError("exhausted", `more than ${limitBytes} bytes of names of ${which} files`);
}

/** As many bytes as are asked for, also of a file that has been cut meanwhile. */
async function* contentOf(file: FileHandle, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < size;) {
    const chunk = Buffer.alloc(Math.min(chunkBytes, size - at));
    const { bytesRead } = await file.read(chunk, 0, chunk.length, at);
    const used = bytesRead === 0 ? chunk : chunk.subarray(0, bytesRead);
    yield used;
    at += used.length;
  }
}

/** The container's own number of an id of the node; an id that it does not have stays. */
function insideOf(map: string): (id: number) => number {
  const ranges = map
    .trim()
    .split("\n")
    .map((line) => line.trim().split(/\s+/).map(Number));
  return (id) => {
    for (const [inside = 0, outside = 0, length = 0] of ranges)
      if (id >= outside && id < outside + length) return id - outside + inside;
    return id;
  };
}
