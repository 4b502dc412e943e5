/** The archive of a checkpointed container, laid out as CRI-O and containerd write it. */
import { once } from "node:events";
import { createReadStream, type Stats } from "node:fs";
import {
  type FileHandle,
  lstat,
  mkdtemp,
  open,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  stat,
} from "node:fs/promises";
import { dirname, join } from "node:path";
import { type Header, pack, type Pack } from "tar-stream";
import { orAbort } from "../../lib/abort.js";
import { syncDirectory } from "../../lib/files/directories.js";
import { ShimError } from "../../lib/errors.js";
import { fileError, hasCode } from "../../lib/files/file-errors.js";
import type { CheckpointContent } from "../ports/host.js";
import { isCgroupOf, ProcFiles } from "./processes/proc-files.js";

export interface CheckpointTarget {
  readonly containerId: string;
  /** A process of the container. */
  readonly pid: number;
}

/** Where CRIU's files are in the archive. */
const imageDirectory = "checkpoint";
const temporaryPrefix = ".dockershim-checkpoint-";

/**
 * Has `dump` put CRIU's files into a new directory beside `location`, and archives them there, the old file
 * or a whole new one, for root alone: it holds memory. The directory goes in any case.
 */
export async function archiveCheckpoint(
  target: CheckpointTarget,
  location: string,
  dump: (directory: string) => Promise<CheckpointContent>,
  signal: AbortSignal,
  proc = new ProcFiles(),
): Promise<void> {
  // While the container runs, and before anything is made.
  const spec = await readRuntimeSpec(target, proc);
  const directory = await mkdtemp(join(dirname(location), temporaryPrefix)).catch((error: unknown) => {
    if (!hasCode(error, "ENOENT", "ENOTDIR")) throw fileError("write checkpoint", location, error);
    throw new ShimError("precondition", `write checkpoint "${location}": its directory does not exist`);
  });
  try {
    const content = await dump(directory);
    if ((await stat(content.images).catch(() => undefined))?.isDirectory() !== true) {
      const reason = "the Docker Engine wrote it elsewhere, because it has other file systems mounted";
      throw new ShimError("unsupported", `write checkpoint "${location}": ${reason}`);
    }
    const temporary = join(directory, "archive.tar");
    await writeArchive(temporary, { ...content, spec: { ...spec, ...annotated(spec, content) } }, signal);
    await rename(temporary, location);
    await syncDirectory(dirname(location));
  } catch (error) {
    throw error instanceof ShimError ? error : fileError("write checkpoint", location, error);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

interface Archive extends CheckpointContent {
  readonly spec: Readonly<Record<string, unknown>>;
}

async function writeArchive(path: string, archive: Archive, signal: AbortSignal): Promise<void> {
  const tar = pack();
  const file = await open(path, "wx", 0o600);
  const failed = new AbortController();
  const end = (error: unknown): never => {
    failed.abort(error);
    tar.destroy(error instanceof Error ? error : new Error(String(error)));
    throw error;
  };
  try {
    // Whichever fails first ends the other one.
    await Promise.all([
      write(tar, file).catch(end),
      fill(tar, archive, AbortSignal.any([signal, failed.signal])).catch(end),
    ]);
    await file.sync();
  } finally {
    await file.close();
  }
}

async function write(tar: Pack, file: FileHandle): Promise<void> {
  for await (const chunk of tar as AsyncIterable<Buffer>) {
    // The system may take less than it is given.
    for (let start = 0; start < chunk.length;) start += (await file.write(chunk, start)).bytesWritten;
  }
}

async function fill(tar: Pack, { images, config, spec }: Archive, signal: AbortSignal): Promise<void> {
  await addText(tar, "config.dump", JSON.stringify(config), signal);
  await addText(tar, "spec.dump", JSON.stringify(spec), signal);
  await addPath(tar, images, imageDirectory, signal);
  tar.finalize();
}

function addText(tar: Pack, name: string, text: string, signal: AbortSignal): Promise<void> {
  const content = Buffer.from(text);
  return addContent(tar, { name, mode: 0o600, size: content.length }, [content], signal);
}

/** A directory with all that is in it. Sockets and the like hold nothing and are left out. */
async function addPath(tar: Pack, path: string, name: string, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const found = await lstat(path);
  if (found.isDirectory()) {
    tar.entry({ ...headerOf(found), name: `${name}/`, type: "directory" });
    for (const entry of (await readdir(path)).sort()) {
      await addPath(tar, join(path, entry), `${name}/${entry}`, signal);
    }
  } else if (found.isSymbolicLink()) {
    tar.entry({ ...headerOf(found), name, type: "symlink", linkname: await readlink(path) });
  } else if (found.isFile()) {
    const { size } = found;
    const content = size === 0 ? [] : (createReadStream(path, { end: size - 1 }) as AsyncIterable<Buffer>);
    await addContent(tar, { ...headerOf(found), name, size }, content, signal);
  }
}

/** Returns when the entry is complete; `content` must be as long as the header says. */
async function addContent(
  tar: Pack,
  header: Pick<Header, "name"> & Partial<Header>,
  content: AsyncIterable<Buffer> | Iterable<Buffer>,
  signal: AbortSignal,
): Promise<void> {
  let entry!: ReturnType<Pack["entry"]>;
  const complete = new Promise<void>((resolve, reject) => {
    entry = tar.entry(header, (error) => {
      if (error) reject(error);
      else resolve();
    });
  });
  complete.catch(() => undefined); // Heard below, unless something else failed before.
  for await (const chunk of content) {
    if (!entry.write(chunk)) await once(entry, "drain", { signal });
  }
  entry.end(null);
  await orAbort(complete, signal);
}

function headerOf({ mode, uid, gid, mtime }: Stats) {
  return { mode: mode & 0o7777, uid, gid, mtime };
}

/** The OCI specification of the container: its runtime's supervisor works in the bundle that it lies in. */
async function readRuntimeSpec(
  { containerId, pid }: CheckpointTarget,
  proc: ProcFiles,
): Promise<Readonly<Record<string, unknown>>> {
  const cgroup = pid > 1 ? await proc.text(pid, "cgroup") : undefined;
  const supervisor = (await proc.stat(pid))?.parent ?? 0;
  if (cgroup !== undefined && isCgroupOf(containerId, cgroup) && supervisor > 1) {
    const text = await readFile(proc.path(supervisor, "cwd/config.json"), "utf8").catch(() => "");
    try {
      const spec: unknown = JSON.parse(text);
      if (typeof spec === "object" && spec !== null && !Array.isArray(spec)) return { ...spec };
    } catch {
      // Said below, with every other way to have none.
    }
  }
  const message = `the OCI specification of container "${containerId}" is out of reach on this host`;
  throw new ShimError("unsupported", message, { containerId });
}

function annotated(
  spec: Readonly<Record<string, unknown>>,
  { annotations }: CheckpointContent,
): { readonly annotations: Readonly<Record<string, unknown>> } {
  const present = spec["annotations"];
  return { annotations: { ...(typeof present === "object" ? present : {}), ...annotations } };
}
