/** The archive of a checkpointed container, laid out as CRI-O and containerd write it. */
import { createReadStream } from "node:fs";
import { lstat, mkdtemp, readdir, readlink, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { syncDirectory } from "../../lib/files/directories.js";
import { ShimError } from "../../lib/errors.js";
import { fileError, hasCode } from "../../lib/files/file-errors.js";
import { isAlive, markOf } from "../../lib/linux/process-mark.js";
import type { CheckpointContent } from "../ports/host.js";
import { deletedFilesName, rootChangesName } from "./root-changes.js";
import { criuLog, type RuntimeTask } from "./runtime-task.js";
import { addContent, addEntry, addText, headerOf, type TarFile, writeTar } from "./tar-file.js";

/** Where CRIU's files are in the archive. */
const imageDirectory = "checkpoint";
export const temporaryPrefix = ".dockershim-checkpoint-";

/**
 * Has `dump` put CRIU's files into the new directory `images`, and archives them at `location`, the old file
 * or a whole new one, for root alone: it holds memory. All is made in a directory beside it, `work`, which goes
 * in any case.
 */
export async function archiveCheckpoint(
  { spec }: Pick<RuntimeTask, "spec">,
  location: string,
  content: CheckpointContent,
  dump: (to: { readonly images: string; readonly work: string }) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  await removeAbandoned(dirname(location));
  const prefix = `${temporaryPrefix}${process.pid}-${markOf(process.pid)?.startTime ?? ""}-`;
  const work = await mkdtemp(join(dirname(location), prefix)).catch((error: unknown) => {
    if (!hasCode(error, "ENOENT", "ENOTDIR")) throw fileError("write checkpoint", location, error);
    throw new ShimError("precondition", `write checkpoint "${location}": its directory does not exist`);
  });
  try {
    const images = join(work, imageDirectory);
    await dump({ images, work });
    signal.throwIfAborted();
    const temporary = join(work, "archive.tar");
    const { config } = content;
    const archive = { config, spec: { ...spec, ...annotated(spec, content) }, work };
    await writeTar(temporary, (to) => fill(to, archive), signal);
    await rename(temporary, location);
    await syncDirectory(dirname(location));
  } catch (error) {
    throw error instanceof ShimError ? error : fileError("write checkpoint", location, error);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** What processes left that were killed meanwhile. The name has the process, and when it was started. */
export async function removeAbandoned(directory: string): Promise<void> {
  const names = await readdir(directory).catch(() => []);
  for (const name of names) {
    if (!name.startsWith(temporaryPrefix)) continue;
    const [, pid, startTime] = /^(\d+)-(\d+)-/.exec(name.slice(temporaryPrefix.length)) ?? [];
    if (startTime === undefined || (await isAlive({ pid: Number(pid), startTime }))) continue;
    const path = join(directory, name);
    const found = await lstat(path).catch(() => undefined); // Gone since.
    // Another user could replace what is in a directory of its own by links, meanwhile.
    if (found?.uid === process.geteuid?.()) await rm(path, { recursive: true, force: true });
  }
}

interface Archive extends Pick<CheckpointContent, "config"> {
  readonly spec: Readonly<Record<string, unknown>>;
  /** Holds CRIU's files and logs, and what has changed in the root file system. */
  readonly work: string;
}

/** Beside CRIU's images, where they have been written. */
const otherNames: readonly string[] = [criuLog, "stats-dump", rootChangesName, deletedFilesName];

async function fill(to: TarFile, { work, config, spec }: Archive): Promise<void> {
  await addText(to, "config.dump", JSON.stringify(config));
  await addText(to, "spec.dump", JSON.stringify(spec));
  const present = await readdir(work);
  for (const name of otherNames) if (present.includes(name)) await addPath(to, join(work, name), name);
  await addPath(to, join(work, imageDirectory), imageDirectory);
}

/** A directory with all that is in it. Sockets and the like hold nothing and are left out. */
async function addPath(to: TarFile, path: string, name: string): Promise<void> {
  to.signal.throwIfAborted();
  const found = await lstat(path);
  if (found.isDirectory()) {
    await addEntry(to, { ...headerOf(found), name: `${name}/`, type: "directory" });
    for (const entry of (await readdir(path)).sort())
      await addPath(to, join(path, entry), `${name}/${entry}`);
  } else if (found.isSymbolicLink()) {
    await addEntry(to, { ...headerOf(found), name, type: "symlink", linkname: await readlink(path) });
  } else if (found.isFile()) {
    const { size } = found;
    const content = size === 0 ? [] : (createReadStream(path, { end: size - 1 }) as AsyncIterable<Buffer>);
    await addContent(to, { ...headerOf(found), name, size }, content);
  }
}

function annotated(
  spec: Readonly<Record<string, unknown>>,
  { annotations }: CheckpointContent,
): { readonly annotations: Readonly<Record<string, unknown>> } {
  const present = spec["annotations"];
  return { annotations: { ...(typeof present === "object" ? present : {}), ...annotations } };
}
