/** The link from a container's log path to the engine's log file: what kubelets read with dockershim. */
import { randomBytes } from "node:crypto";
import type { Dirent } from "node:fs";
import { lstat, mkdir, readdir, readlink, rename, symlink, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { engineLogFile } from "../../lib/engine-log-file.js";
import { ShimError } from "../../lib/errors.js";
import { fileError, hasCode, unlessMissing } from "../../lib/files/file-errors.js";
import { rotationTime } from "../../lib/time.js";
import type { LogLink } from "../ports/host.js";

/**
 * Makes `link` point to `target`, atomically. An older link is replaced, wherever it leads; a file that
 * stands there is moved aside as kubelets name rotated logs. `precondition` for anything else there.
 */
export async function linkLog(link: string, target: string): Promise<void> {
  try {
    if (!(await isThere(link, target))) await replace(link, target);
  } catch (error) {
    throw fileError("link the log at", link, error);
  }
}

/**
 * Makes the link of a container that runs already, where nothing but an older link is. False when a file is
 * there, or was there and has been rotated: then the log is not a link, and another program may write it.
 */
export async function restoreLogLink(link: string, target: string): Promise<boolean> {
  try {
    const there = await lstat(link).catch(unlessMissing);
    if (there === undefined ? await wasRotated(link) : !there.isSymbolicLink()) return false;
  } catch (error) {
    throw fileError("look for the log at", link, error);
  }
  await linkLog(link, target);
  return true;
}

/** Removes `link` if it leads to the engine's log of that container; anything else stays. */
export async function unlinkLog(link: string, containerId: string): Promise<void> {
  try {
    if (engineLogFile.exec(await readlink(link))?.[1] === containerId) await unlink(link);
  } catch (error) {
    // Not a link, or gone.
    if (!hasCode(error, "EINVAL", "ENOENT", "ENOTDIR")) throw fileError("unlink the log at", link, error);
  }
}

/** Links of a pod's directory to engines' logs that lead nowhere; none when the directory is gone. */
export async function deadLogLinks(directory: string): Promise<readonly LogLink[]> {
  try {
    const found: LogLink[] = [];
    for (const entry of await entriesOf(directory)) {
      const path = join(directory, entry.name);
      const links = entry.isDirectory()
        ? (await entriesOf(path)).filter((one) => one.isSymbolicLink()).map(({ name }) => join(path, name))
        : [path].filter(() => entry.isSymbolicLink());
      for (const link of links) found.push(...(await ifDead(link)));
    }
    return found;
  } catch (error) {
    throw fileError("look for log links in", directory, error);
  }
}

async function entriesOf(directory: string): Promise<readonly Dirent[]> {
  return (await readdir(directory, { withFileTypes: true }).catch(unlessMissing)) ?? [];
}

async function ifDead(path: string): Promise<readonly LogLink[]> {
  const target = await readlink(path).catch(unlessMissing);
  const containerId = engineLogFile.exec(target ?? "")?.[1];
  if (target === undefined || containerId === undefined) return [];
  return (await lstat(target).catch(unlessMissing)) === undefined ? [{ path, containerId }] : [];
}

/** Whether nothing is left to be done. Clears the way when there is. */
async function isThere(link: string, target: string): Promise<boolean> {
  const there = await lstat(link).catch(unlessMissing);
  if (there === undefined) return false;
  if (there.isSymbolicLink()) {
    if ((await readlink(link)) === target) return true;
  } else if (there.isFile()) {
    await rename(link, await freeName(`${link}.${rotationTime(new Date())}`));
  } else {
    throw new ShimError("precondition", `"${link}" is in the way: it is no log file`, { path: link });
  }
  return false;
}

/** Kubelets append a time to the name, and rename first: for a moment, the log itself is not there. */
async function wasRotated(link: string): Promise<boolean> {
  const prefix = `${basename(link)}.`;
  const names = await readdir(dirname(link)).catch(unlessMissing);
  return names?.some((name) => name.startsWith(prefix)) ?? false;
}

async function replace(link: string, target: string): Promise<void> {
  await mkdir(dirname(link), { recursive: true, mode: 0o755 });
  const temporary = join(dirname(link), `.${basename(link).slice(0, 128)}.${randomBytes(6).toString("hex")}`);
  await symlink(target, temporary);
  try {
    await rename(temporary, link);
  } catch (error) {
    // The first error counts. A temporary link that stays has a telling name, and goes with the directory.
    await unlink(temporary).catch(() => undefined);
    throw error;
  }
}

/** Two files in one second must not become one. */
async function freeName(wanted: string): Promise<string> {
  let name = wanted;
  for (let count = 1; (await lstat(name).catch(unlessMissing)) !== undefined; count++) {
    name = `${wanted}-${count}`;
  }
  return name;
}
