/** The directories between a log directory and a log file: found or made, and never outside of the log directory. */
import { constants, mkdir, open, readlink, realpath } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { createDirectory, syncDirectory } from "../../lib/files/directories.js";
import { ShimError } from "../../lib/errors.js";
import { hasCode } from "../../lib/files/file-errors.js";
import type { LogTarget } from "../../ports/container-logs.js";

/** What the kubelet gives its directories. */
const directoryMode = 0o755;

/**
 * The directory of the log file, free of links. With `create`, the log directory and what is missing below it are made,
 * one by one: nothing is made behind a link that leads out. `invalid` when one does; system errors are thrown as they
 * are, ENOENT when something is missing without `create`.
 */
export async function logFileDirectory(
  target: LogTarget,
  { create }: { readonly create: boolean },
): Promise<string> {
  if (create) await createDirectory(target.directory, directoryMode);
  const root = await realpath(target.directory);
  let directory = root;
  for (const name of relative(target.directory, dirname(target.path)).split(sep)) {
    if (name === "") continue;
    directory = await step(directory, name, create);
    if (directory !== root && !directory.startsWith(`${root}/`)) throw leadsOut(target);
  }
  return directory;

  async function step(parent: string, child: string, make: boolean): Promise<string> {
    const path = join(parent, child);
    try {
      return await realpath(path);
    } catch (error) {
      if (!make || !hasCode(error, "ENOENT")) throw error;
    }
    const isMade = await makeInside(parent, child);
    return realpath(path).catch((error: unknown) => {
      // A link to nothing: what it would lead to is not ours to make.
      if (!isMade && hasCode(error, "ENOENT")) throw leadsOut(target);
      throw error;
    });
  }
}

/**
 * Runs `work` with a path to `directory`, which is free of links: whoever exchanges the directory, or one above it, for a
 * link meanwhile changes nothing. `unavailable` when that was done before it could be held.
 */
export async function holding<T>(directory: string, work: (path: string) => Promise<T>): Promise<T> {
  const handle = await open(directory, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    const held = `/proc/self/fd/${String(handle.fd)}`;
    // Undefined where there is no /proc.
    const opened = await readlink(held).catch(() => undefined);
    if (opened !== undefined && opened !== directory) {
      throw new ShimError("unavailable", `directory "${directory}" was replaced while it was looked at`, {
        path: directory,
      });
    }
    return await work(opened === undefined ? directory : held);
  } finally {
    await handle.close();
  }
}

/** False when something has that name already. Durable. */
function makeInside(parent: string, name: string): Promise<boolean> {
  return holding(parent, async (held) => {
    try {
      await mkdir(join(held, name), { mode: directoryMode });
    } catch (error) {
      if (hasCode(error, "EEXIST")) return false;
      throw error;
    }
    await syncDirectory(held);
    return true;
  });
}

function leadsOut({ path, directory }: LogTarget): ShimError {
  return new ShimError("invalid", `log path "${path}" leads out of "${directory}"`, { path });
}
