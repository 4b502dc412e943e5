/** Links to the engine's log file of a container at its log path, as dockershim and cri-dockerd made them. */
import { readdir, readlink, rename, rm, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { syncDirectory } from "../../../lib/files/directories.js";
import { engineLogFile } from "../../../lib/engine-log-file.js";
import { ShimError } from "../../../lib/errors.js";
import { fileError, hasCode } from "../../../lib/files/file-errors.js";
import type { LogTarget } from "../../ports/container-logs.js";
import { logFileDirectory, withOpenDirectory } from "../sink/open-log-file.js";

/** Paths of the links: at the log path, or under a name that a rotation gave it, oldest name first. */
export async function engineLinks(target: LogTarget, containerId: string): Promise<readonly string[]> {
  return inDirectory(target, "look for links to the engine's log at", (held) =>
    linksIn(held, target, containerId),
  );
}

/** Removes the links, durably. Does nothing without the directory. */
export async function removeEngineLinks(target: LogTarget, containerId: string): Promise<void> {
  await inDirectory(target, "remove links to the engine's log at", async (held) => {
    for (const path of await linksIn(held, target, containerId)) await unlink(join(held, basename(path)));
    await syncDirectory(held);
  }).catch(unlessNoDirectory);
}

/** Renames a file beside the log, durably, and replaces `to`. */
export async function renameBeside(target: LogTarget, from: string, to: string): Promise<void> {
  await inDirectory(target, "rename a file beside", async (held) => {
    await rename(join(held, basename(from)), join(held, basename(to)));
    await syncDirectory(held);
  });
}

/** Does nothing without the file or the directory. */
export async function removeBeside(target: LogTarget, path: string): Promise<void> {
  await inDirectory(target, "remove a file beside", (held) =>
    rm(join(held, basename(path)), { force: true }),
  ).catch(unlessNoDirectory);
}

async function inDirectory<T>(
  target: LogTarget,
  action: string,
  work: (held: string) => Promise<T>,
): Promise<T> {
  try {
    return await withOpenDirectory(await logFileDirectory(target, { create: false }), work);
  } catch (error) {
    throw fileError(action, target.path, error);
  }
}

async function linksIn(held: string, { path }: LogTarget, containerId: string): Promise<readonly string[]> {
  const name = basename(path);
  const found: string[] = [];
  for (const one of (await readdir(held)).sort()) {
    if (one !== name && !one.startsWith(`${name}.`)) continue;
    const leadsTo = await readlink(join(held, one)).catch(unlessNoLink);
    if (leadsTo !== undefined && engineLogFile.exec(leadsTo)?.[1] === containerId) {
      found.push(join(dirname(path), one));
    }
  }
  return found;
}

function unlessNoDirectory(error: unknown): void {
  if (ShimError.from(error).fields["errno"] !== "ENOENT") throw error;
}

/** It is not a link, or is gone. */
function unlessNoLink(error: unknown): undefined {
  if (hasCode(error, "EINVAL", "ENOENT")) return undefined;
  throw error;
}
