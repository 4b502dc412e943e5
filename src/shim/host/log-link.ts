/** The link from a container's log path to the engine's log file: what kubelets read with dockershim. */
import { lstat, mkdir, readlink, rename, symlink, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { randomBytes } from "node:crypto";
import { ShimError } from "../base/errors.js";

/** Where every engine keeps the files of a container: `<data root>/containers/<64 hex digits>/…`. */
const engineLogFile = /\/containers\/[0-9a-f]{64}\/[^/]+$/;

/**
 * Makes `link` point to `target`, atomically. An older link of this kind is replaced; a file that stands there is moved
 * aside under the name that kubelets give to rotated logs, and a directory is an error.
 */
export async function linkLog(link: string, target: string): Promise<void> {
  await mkdir(dirname(link), { recursive: true, mode: 0o755 });
  const there = await lstat(link).catch(absent);
  if (there?.isSymbolicLink() === true) {
    const old = await readlink(link);
    if (old === target) return;
    if (!engineLogFile.test(old)) throw new ShimError("precondition", `"${link}" is a link to "${old}"`, { path: link });
  } else if (there?.isFile() === true) {
    await rename(link, `${link}.${timestamp(new Date())}`);
  } else if (there !== undefined) {
    throw new ShimError("precondition", `"${link}" is in the way: it is no log file`, { path: link });
  }
  const temporary = join(dirname(link), `.${basename(link)}.${randomBytes(6).toString("hex")}`);
  await symlink(target, temporary);
  try {
    await rename(temporary, link);
  } catch (error) {
    await unlink(temporary).catch(absent);
    throw error;
  }
}

/** Removes `link` if it is a link to an engine's log file; files and directories stay as they are. */
export async function unlinkLog(link: string): Promise<void> {
  const target = await readlink(link).catch((error: unknown) => {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EINVAL" || code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw error;
  });
  if (target !== undefined && engineLogFile.test(target)) await unlink(link).catch(absent);
}

function absent(error: unknown): undefined {
  if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
  throw error;
}

/** `20060102-150405`, in UTC. */
function timestamp(date: Date): string {
  return date.toISOString().slice(0, 19).replace(/[-:]/g, "").replace("T", "-");
}
