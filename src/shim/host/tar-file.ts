/** Writes tar files, of which nothing is ever in memory as a whole. */
import { once } from "node:events";
import type { Stats } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { Writable } from "node:stream";
import { finished } from "node:stream/promises";
import { type Header, pack, type Pack } from "tar-stream";
import { orAbort } from "../../lib/abort.js";

/** While it is written. */
export interface TarFile {
  readonly tar: Pack;
  readonly file: Writable;
  readonly signal: AbortSignal;
}

const bufferedBytes = 256 * 1024;

type EntryHeader = Pick<Header, "name"> & Partial<Header>;

/** A new file at `path`, for root alone, with the entries that `fill` adds. */
export async function writeTar(
  path: string,
  fill: (to: TarFile) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const tar = pack();
  const handle = await open(path, "wx", 0o600);
  const failed = new AbortController();
  const file = writableOf(handle);
  const end = (reason: unknown): never => {
    failed.abort(reason);
    const error = reason instanceof Error ? reason : new Error(String(reason));
    for (const stream of [tar, file]) stream.destroy(error);
    throw reason;
  };
  const add = async (): Promise<void> => {
    await fill({ tar, file, signal: AbortSignal.any([signal, failed.signal]) });
    tar.finalize();
  };
  try {
    // Whichever fails first ends the other one.
    tar.pipe(file);
    await Promise.all([finished(file).catch(end), add().catch(end)]);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function writableOf(handle: FileHandle): Writable {
  const write = async (bytes: Buffer): Promise<void> => {
    // The system may take less than it is given.
    for (let start = 0; start < bytes.length;) start += (await handle.write(bytes, start)).bytesWritten;
  };
  return new Writable({
    highWaterMark: bufferedBytes,
    write: (chunk: Buffer, _encoding, done) => void write(chunk).then(() => done(), done),
    writev: (chunks, done) =>
      void write(Buffer.concat(chunks.map(({ chunk }) => chunk as Buffer))).then(() => done(), done),
  });
}

export function addText(to: TarFile, name: string, text: string): Promise<void> {
  const content = Buffer.from(text);
  return addContent(to, { name, mode: 0o600, size: content.length }, [content]);
}

/** An entry without content. */
export async function addEntry(to: TarFile, header: EntryHeader): Promise<void> {
  to.tar.entry(header);
  await room(to);
}

/** Returns when the entry is complete; `content` must be as long as the header says. */
export async function addContent(
  to: TarFile,
  header: EntryHeader,
  content: AsyncIterable<Buffer> | Iterable<Buffer>,
): Promise<void> {
  const { tar, signal } = to;
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
  await room(to);
}

/** The tar stream takes any number of headers. */
async function room({ file, signal }: TarFile): Promise<void> {
  if (file.writableNeedDrain) await once(file, "drain", { signal });
}

/** In fields of octal digits; larger values, and those before 1970, are in a header that POSIX has added. */
const largestId = 0o777777;
const largestSeconds = 0x7fffffff;

export function headerOf({ mode, uid, gid, mtime }: Pick<Stats, "mode" | "uid" | "gid" | "mtime">) {
  const seconds = Math.floor(mtime.getTime() / 1000);
  const kept = Math.min(Math.max(seconds, 0), largestSeconds);
  const pax = {
    ...(uid > largestId ? { uid: String(uid) } : {}),
    ...(gid > largestId ? { gid: String(gid) } : {}),
    ...(seconds !== kept ? { mtime: String(seconds) } : {}),
  };
  return {
    ...{ mode: mode & 0o7777, uid, gid, mtime: new Date(kept * 1000) },
    ...(Object.keys(pax).length > 0 ? { pax } : {}),
  };
}
