/** The file at a container's log path, opened so that nothing outside of the log directory can be reached. */
import { constants, open, readlink, unlink, type FileHandle } from "node:fs/promises";
import { basename, join } from "node:path";
import { engineLogFile } from "../../lib/engine-log-file.js";
import { ShimError } from "../../lib/errors.js";
import { fileError, hasCode } from "../../lib/files/file-errors.js";
import type { LogTarget } from "../../ports/container-logs.js";
import { holding, logFileDirectory } from "./log-directories.js";

/** What containerd gives its log files. */
const fileMode = 0o640;

const flags =
  constants.O_RDWR | constants.O_APPEND | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY;

/**
 * Opens the log file for appending. With `create`, makes it and the directories above it when they are missing;
 * undefined without it when there is no file. An old link to an engine's log file is replaced. `precondition` when
 * something else is in the way, `invalid` when a link leads out of the log directory.
 */
export async function openLogFile(
  target: LogTarget,
  { create }: { readonly create: boolean },
): Promise<FileHandle | undefined> {
  try {
    const directory = await logFileDirectory(target, { create });
    return await holding(directory, (held) =>
      openRegular(join(held, basename(target.path)), target.path, create),
    );
  } catch (error) {
    if (!create && hasCode(error, "ENOENT", "ENOTDIR")) return undefined;
    throw fileError("open the log file", target.path, error);
  }
}

async function openRegular(path: string, shown: string, create: boolean): Promise<FileHandle> {
  const wanted = create ? flags | constants.O_CREAT : flags;
  const file = await open(path, wanted, fileMode).catch(async (error: unknown) => {
    if (hasCode(error, "ENXIO", "EISDIR")) throw inTheWay(shown);
    if (!hasCode(error, "ELOOP")) throw error;
    if (!engineLogFile.test(await readlink(path))) throw inTheWay(shown);
    await unlink(path);
    return open(path, wanted, fileMode);
  });
  try {
    const status = await file.stat();
    if (!status.isFile()) throw inTheWay(shown);
    // Whatever the umask: agents in the group of the file read it.
    if (create && status.size === 0) await file.chmod(fileMode);
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}

function inTheWay(path: string): ShimError {
  return new ShimError("precondition", `"${path}" is in the way: it is no log file`, { path });
}
