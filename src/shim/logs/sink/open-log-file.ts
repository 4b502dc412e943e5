/** The file at a container's log path, opened so that nothing outside of the log directory can be reached. */
import type { BigIntStats } from "node:fs";
import { constants, mkdir, open, readlink, realpath, unlink, type FileHandle } from "node:fs/promises";
import { basename, dirname, join, relative, sep } from "node:path";
import { ShimError } from "../../../lib/errors.js";
import { createDirectory } from "../../../lib/files/directories.js";
import { fileError, hasCode } from "../../../lib/files/file-errors.js";
import type { LogTarget } from "../../ports/container-logs.js";

/** As containerd's log files have it. */
const fileMode = 0o640;

const flags =
  constants.O_RDWR | constants.O_APPEND | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY;

export interface OpenLogFile {
  readonly file: FileHandle;
  /** As it was when the file was opened. */
  readonly status: BigIntStats;
}

/**
 * Opens the log file for appending. With `create`, makes the file and missing directories above it; without,
 * undefined when there is no file. A link at the log path, as dockershim and cri-dockerd leave it, counts as
 * no file: it is replaced, and never followed. Throws `precondition` when the path is something else than a
 * file, `invalid` when a directory of it is a link that leads out of the log directory.
 */
export async function openLogFile(
  target: LogTarget,
  { create }: { readonly create: boolean },
): Promise<OpenLogFile | undefined> {
  try {
    return await withLogDirectory(target, { create }, (held) =>
      openRegular(join(held, basename(target.path)), target.path, create),
    );
  } catch (error) {
    if (!create && hasCode(error, "ENOENT", "ENOTDIR", "ELOOP")) return undefined;
    throw fileError("open the log file", target.path, error);
  }
}

async function openRegular(path: string, shown: string, create: boolean): Promise<OpenLogFile> {
  const wanted = create ? flags | constants.O_CREAT : flags;
  const file = await open(path, wanted, fileMode).catch(async (error: unknown) => {
    if (hasCode(error, "ENXIO", "EISDIR")) throw inTheWay(shown);
    if (!create || !hasCode(error, "ELOOP")) throw error;
    await unlink(path);
    return open(path, wanted, fileMode);
  });
  try {
    const status = await file.stat({ bigint: true });
    if (!status.isFile()) throw inTheWay(shown);
    // In spite of the umask: log agents in the group of the file read it.
    const isOpenToGroup = (Number(status.mode) & 0o777) === fileMode;
    if (create && status.size === 0n && !isOpenToGroup) await file.chmod(fileMode);
    return { file, status };
  } catch (error) {
    await file.close();
    throw error;
  }
}

function inTheWay(path: string): ShimError {
  return new ShimError("precondition", `"${path}" is in the way: it is not a log file`, { path });
}

/** As the kubelet's log directories have it. */
const directoryMode = 0o755;

/**
 * Runs `work` with a path to the open directory of the log file. Mostly the kubelet has made it, and its path has no
 * link: then nothing is to be made or resolved.
 */
async function withLogDirectory<T>(
  target: LogTarget,
  options: { readonly create: boolean },
  work: (path: string) => Promise<T>,
): Promise<T> {
  const directory = dirname(target.path);
  const handle = `${directory}/`.startsWith(`${target.directory}/`)
    ? await openAsNamed(directory)
    : undefined;
  if (handle === undefined) return withOpenDirectory(await logFileDirectory(target, options), work);
  try {
    return await work(heldPath(handle));
  } finally {
    await handle.close();
  }
}

/** Undefined when it cannot be opened, or is not where its path says: there may be a link, or no /proc. */
async function openAsNamed(directory: string): Promise<FileHandle | undefined> {
  const handle = await open(directory, directoryFlags).catch(() => undefined);
  if (handle === undefined || (await readlink(heldPath(handle)).catch(() => "")) === directory) return handle;
  await handle.close();
  return undefined;
}

const directoryFlags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

function heldPath({ fd }: FileHandle): string {
  return `/proc/self/fd/${fd}`;
}

/**
 * The directory of the log file, with all links resolved. With `create`, makes the log directory and missing
 * directories below it, one by one, and none behind a link that leads out. Throws `invalid` for such a link,
 * and system errors as they are: ENOENT when a directory is missing without `create`.
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
      // A dangling link: its target is not made.
      if (!isMade && hasCode(error, "ENOENT")) throw leadsOut(target);
      throw error;
    });
  }
}

/**
 * Runs `work` with a path to the open `directory`, which has no links: another program that replaces a
 * directory by a link meanwhile has no effect. Throws `unavailable` when it was replaced before.
 */
export async function withOpenDirectory<T>(
  directory: string,
  work: (path: string) => Promise<T>,
): Promise<T> {
  const handle = await open(directory, directoryFlags);
  try {
    const held = heldPath(handle);
    // Without /proc it is undefined.
    const opened = await readlink(held).catch(() => undefined);
    if (opened !== undefined && opened !== directory) {
      throw new ShimError("unavailable", `directory "${directory}" was replaced while it was opened`, {
        path: directory,
      });
    }
    return await work(opened === undefined ? directory : held);
  } finally {
    await handle.close();
  }
}

/** False when the name exists already. */
function makeInside(parent: string, name: string): Promise<boolean> {
  return withOpenDirectory(parent, async (held) => {
    try {
      await mkdir(join(held, name), { mode: directoryMode });
    } catch (error) {
      if (hasCode(error, "EEXIST")) return false;
      throw error;
    }
    return true;
  });
}

function leadsOut({ path, directory }: LogTarget): ShimError {
  return new ShimError("invalid", `log path "${path}" leads out of "${directory}"`, { path });
}
