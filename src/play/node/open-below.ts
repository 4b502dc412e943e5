/** Opens paths below a directory of tenants: each part from its open parent, and no links are followed. */
import { constants } from "node:fs";
import { type FileHandle, chmod, chown, lstat, mkdir, open, realpath } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import type { Owner } from "../../domain/node-facts.js";
import { ShimError, messageOf } from "../../lib/errors.js";
import { hasCode } from "../../lib/files/file-errors.js";

/** Opens a place and not its content: no right to read is needed, and pipes and devices do not block. */
export const placeOnly = 0o10000000;

/** The path by which the kernel finds an open file again, whatever its name is now. */
export function pathOf({ fd }: FileHandle): string {
  return `/proc/self/fd/${fd}`;
}

async function openChild(parent: FileHandle, name: string): Promise<FileHandle> {
  const child = await open(join(pathOf(parent), name), placeOnly | constants.O_NOFOLLOW);
  if (!(await child.stat()).isSymbolicLink()) return child;
  await child.close();
  throw new ShimError("precondition", `"${name}" has become a link`);
}

/** False when it is there: pods that start side by side share claims. */
async function makeChild(parent: FileHandle, name: string): Promise<boolean> {
  try {
    await mkdir(join(pathOf(parent), name));
    return true;
  } catch (error) {
    if (hasCode(error, "EEXIST")) return false;
    throw error;
  }
}

/** The open `subPath` of a volume; the caller closes it. Makes missing directories as the volume is. */
export async function openSubPath(volumePath: string, subPath: string, owner?: Owner): Promise<FileHandle> {
  const action = `mount subPath "${subPath}" of "${volumePath}"`;
  try {
    const root = await realpath(volumePath);
    return await openParts(root, await resolveParts(root, subPath), owner);
  } catch (error) {
    if (error instanceof ShimError) throw error.within(action);
    throw new ShimError("invalid", `${action}: ${messageOf(error)}`, {}, { cause: error });
  }
}

/** See MountedFiles. */
export async function readBelow(volumePath: string, path: string, limitBytes: number): Promise<string> {
  const action = `read "${path}" of "${volumePath}"`;
  try {
    const root = await realpath(volumePath);
    const parts = await resolveParts(root, path);
    if (parts.missing.length > 0) throw new ShimError("notFound", "there is no such file");
    await using place = await openParts(root, parts);
    // A pipe would block the open for ever, and a device may do something when it is opened.
    if (!(await place.stat()).isFile()) throw new ShimError("invalid", "it is not a file");
    await using file = await open(pathOf(place), constants.O_RDONLY);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(limitBytes + 1), 0, limitBytes + 1, 0);
    if (bytesRead > limitBytes) throw new ShimError("exhausted", `it has more than ${limitBytes} bytes`);
    const text = buffer.toString("utf8", 0, bytesRead);
    if (text.includes("\0") || !Buffer.from(text).equals(buffer.subarray(0, bytesRead)))
      throw new ShimError("invalid", "it is not text");
    return text;
  } catch (error) {
    if (error instanceof ShimError) throw error.within(action);
    throw new ShimError("unknown", `${action}: ${messageOf(error)}`, {}, { cause: error });
  }
}

interface Parts {
  readonly existing: string;
  readonly missing: readonly string[];
}

async function openParts(root: string, { existing, missing }: Parts, owner?: Owner): Promise<FileHandle> {
  let current = await open(root, placeOnly | constants.O_NOFOLLOW);
  const { mode } = await current.stat();
  const found = relative(root, existing).split(sep);
  for (const { name, isNew } of [
    ...found.map((part) => ({ name: part, isNew: false })),
    ...missing.map((part) => ({ name: part, isNew: true })),
  ].filter(({ name: part }) => part !== "")) {
    const parent = current;
    try {
      const isOurs = isNew && (await makeChild(parent, name));
      current = await openChild(parent, name);
      if (isOurs) {
        if (owner !== undefined) await giveTo(owner, current);
        await chmod(pathOf(current), mode & 0o2777);
      }
    } finally {
      await parent.close();
    }
  }
  return current;
}

async function giveTo({ uid, gid }: Owner, made: FileHandle): Promise<void> {
  const stats = await made.stat();
  // A new directory has this bit when its parent has it.
  await chown(pathOf(made), uid, (stats.mode & 0o2000) === 0 ? gid : stats.gid);
}

/** Follows links once. What happens to the names afterwards is for `openChild` to see. */
async function resolveParts(root: string, subPath: string): Promise<Parts> {
  const parts = subPath.split("/").filter((name) => name !== "" && name !== ".");
  let existing = root;
  for (const [index, part] of parts.entries()) {
    const next = join(existing, part);
    try {
      existing = await realpath(next);
    } catch (error) {
      if (!hasCode(error, "ENOENT") || (await isThere(next))) throw error;
      return { existing, missing: parts.slice(index) };
    }
    if (existing !== root && !existing.startsWith(root + sep))
      throw new ShimError("invalid", `a link leads out of the volume, to "${existing}"`);
  }
  return { existing, missing: [] };
}

/** Also a link that leads nowhere. */
async function isThere(path: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch (error) {
    if (hasCode(error, "ENOENT")) return false;
    throw error;
  }
}
