/** What a container has changed in its root file system, in the form of CRI-O's checkpoints. */
import { constants, type Stats } from "node:fs";
import { type FileHandle, lstat, open, opendir, readlink, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Pack } from "tar-stream";
import { ShimError } from "../../lib/errors.js";
import { hasCode } from "../../lib/files/file-errors.js";
import { addContent, headerOf, writeTar } from "./tar-file.js";

export const rootChangesName = "rootfs-diff.tar";
/** Paths of the image that the container does not have any more, as a list in JSON. */
export const deletedFilesName = "deleted.files";

/** As lines of /proc/PID/uid_map: ids of the container as those of the node. */
export interface IdMaps {
  readonly uids: string;
  readonly gids: string;
}

/** A file with more holes is left out: it would take more of the disk than it has. */
const largestExpansion = 8;
const slackBytes = 1024 * 1024;
/** Each level takes an open file. */
const levelLimit = 128;
const deletedBytesLimit = 16 * 1024 * 1024;
const chunkBytes = 256 * 1024;
const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants;

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
  const fill = async (tar: Pack, limited: AbortSignal): Promise<void> => {
    changes = new RootChanges(tar, maps, limited);
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
  /** Inode → name of the entry with its content, of files with several names. */
  readonly #linked = new Map<number, string>();
  readonly #uid: (id: number) => number;
  readonly #gid: (id: number) => number;

  constructor(
    private readonly tar: Pack,
    maps: IdMaps,
    private readonly signal: AbortSignal,
  ) {
    this.#uid = insideOf(maps.uids);
    this.#gid = insideOf(maps.gids);
  }

  /** What is in `directory`, whose name is `below` or begins with it. */
  async addDirectory(directory: FileHandle, below: string, level: number): Promise<void> {
    // Paths below it stay below it, whatever its name is now.
    const path = `/proc/self/fd/${directory.fd}`;
    for await (const { name } of await opendir(path)) {
      this.signal.throwIfAborted();
      try {
        await this.#add(`${path}/${name}`, `${below}${name}`, level);
      } catch (error) {
        // Gone, or replaced by another kind of file. A name that is not UTF-8 is not found either.
        if (!hasCode(error, "ENOENT", "ELOOP", "ENOTDIR", "ENXIO")) throw error;
        if (name.includes("\ufffd")) this.omitted += 1;
      }
    }
  }

  async #add(path: string, name: string, level: number): Promise<void> {
    const found = await lstat(path);
    if (found.isDirectory()) await this.#addBelow(path, name, level + 1);
    else if (found.isSymbolicLink())
      this.#entry(found, { name, type: "symlink", linkname: await readlink(path) });
    else if (found.isFile()) await this.#addFile(path, name);
    else if (found.isCharacterDevice() && found.rdev === 0) this.#delete(`/${name}`);
  }

  async #addBelow(path: string, name: string, level: number): Promise<void> {
    if (level > levelLimit) {
      this.omitted += 1;
      return;
    }
    await using directory = await open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    this.#entry(await directory.stat(), { name: `${name}/`, type: "directory" });
    await this.addDirectory(directory, `${name}/`, level);
  }

  async #addFile(path: string, name: string): Promise<void> {
    await using file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const found = await file.stat();
    const { ino, nlink, size, blocks } = found;
    const linkname = this.#linked.get(ino);
    if (linkname !== undefined) {
      this.#entry(found, { name, type: "link", linkname });
    } else if (found.isFile() && size <= blocks * 512 * largestExpansion + slackBytes) {
      if (nlink > 1) this.#linked.set(ino, name);
      this.entries += 1;
      await addContent(
        this.tar,
        { ...this.#headerOf(found), name, size },
        contentOf(file, size),
        this.signal,
      );
    } else this.omitted += 1;
  }

  #entry(found: Stats, header: Parameters<Pack["entry"]>[0]): void {
    this.entries += 1;
    this.tar.entry({ ...this.#headerOf(found), ...header });
  }

  #headerOf(found: Stats) {
    return { ...headerOf(found), uid: this.#uid(found.uid), gid: this.#gid(found.gid) };
  }

  #delete(path: string): void {
    this.#deletedBytes += path.length;
    if (this.#deletedBytes > deletedBytesLimit)
      throw new ShimError("exhausted", `more than ${deletedBytesLimit} bytes of names of deleted files`);
    this.deleted.push(path);
  }
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
