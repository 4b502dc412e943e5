/** Writes tar files, of which nothing is ever in memory as a whole. */
import { once } from "node:events";
import type { Stats } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { type Header, pack, type Pack } from "tar-stream";
import { orAbort } from "../../lib/abort.js";

/** A new file at `path`, for root alone, with the entries that `fill` adds. */
export async function writeTar(
  path: string,
  fill: (tar: Pack, signal: AbortSignal) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const tar = pack();
  const file = await open(path, "wx", 0o600);
  const failed = new AbortController();
  const end = (error: unknown): never => {
    failed.abort(error);
    tar.destroy(error instanceof Error ? error : new Error(String(error)));
    throw error;
  };
  const add = async (): Promise<void> => {
    await fill(tar, AbortSignal.any([signal, failed.signal]));
    tar.finalize();
  };
  try {
    // Whichever fails first ends the other one.
    await Promise.all([write(tar, file).catch(end), add().catch(end)]);
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

export function addText(tar: Pack, name: string, text: string, signal: AbortSignal): Promise<void> {
  const content = Buffer.from(text);
  return addContent(tar, { name, mode: 0o600, size: content.length }, [content], signal);
}

/** Returns when the entry is complete; `content` must be as long as the header says. */
export async function addContent(
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

export function headerOf({ mode, uid, gid, mtime }: Stats) {
  return { mode: mode & 0o7777, uid, gid, mtime };
}
