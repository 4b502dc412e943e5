/**
 * Docker's log files of one container, in order: `…-json.log`, before that `….1`, before that `….2`, each
 * perhaps compressed as `….2.gz`. Names change at any time: a file is identified by its inode as long as it
 * is open, and by its first line, which has a time in nanoseconds, otherwise.
 */
import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { open, readdir, stat, type FileHandle } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { sleep } from "../../../lib/abort.js";
import { hasCode } from "../../../lib/files/file-errors.js";
import { CompressedLog, PlainLog, type DockerLogFile } from "./docker-log-file.js";

/** Identifies a file. */
export interface KnownFile {
  /** Only of an open file: otherwise another file may have it by now. A compressed file has a new one. */
  readonly inode?: string;
  /** Hash of the first line; empty when it was never read. */
  readonly identity: string;
}

export type Found =
  /** The known file is the newest. */
  | { readonly kind: "newest" }
  /** The file after the known one; of `openKnown`, the known one itself. */
  | { readonly kind: "next"; readonly log: DockerLogFile }
  /** The known file is gone, and perhaps files after it: the oldest one that is left. */
  | { readonly kind: "gone"; readonly log: DockerLogFile }
  | { readonly kind: "nothing" };

const newline = 0x0a;
/** A line of 16 KiB of which each byte is escaped, with room for attributes. */
export const longestLineBytes = 256 * 1024;
/** Most first lines are shorter. */
const headBytes = 16 * 1024;
/** Docker renames files within microseconds; a file that is missing after so many attempts is gone. */
const attempts = 5;
const pauseMs = 10;

/** The identity of a file that begins with `chunk`; empty when no line is whole. */
export function identityOf(chunk: Buffer): string {
  const end = chunk.indexOf(newline);
  return end < 0 ? "" : createHash("sha1").update(chunk.subarray(0, end)).digest("hex");
}

export class RotatedFiles {
  constructor(
    /** Path of the newest file. */
    private readonly path: string,
    /** A compressed file that unpacks to more is damaged. */
    private readonly archiveLimitBytes: number,
  ) {}

  /** The file after `known`. */
  async after(known: KnownFile): Promise<Found> {
    return this.#retry(async () => {
      let newer: Entry | undefined;
      for (const entry of await this.#list()) {
        if (await this.#isKnown(entry, known)) {
          return newer === undefined ? { kind: "newest" } : this.#opened("next", newer);
        }
        newer = entry;
      }
      return undefined;
    });
  }

  /** The file with this identity, to continue after a restart; with an empty identity the oldest file. */
  async openKnown(identity: string): Promise<Found> {
    return this.#retry(async () => {
      if (identity === "") return this.#openOldest("next");
      for (const entry of await this.#list()) {
        if (await this.#isKnown(entry, { identity })) return this.#opened("next", entry);
      }
      return undefined;
    });
  }

  async count(): Promise<number> {
    return (await this.#list()).length;
  }

  /**
   * The begin of the last `limitBytes` before a position, in this file or in files before it that are not
   * compressed. It is the begin of a file, or within the file of the position when that alone is too long:
   * then `isCut`. Undefined when the file is gone.
   */
  async before(
    { file, offset }: { readonly file: string; readonly offset: number },
    limitBytes: number,
  ): Promise<{ readonly file: string; readonly offset: number; readonly isCut: boolean } | undefined> {
    if (offset > limitBytes) return { file, offset: offset - limitBytes, isCut: true };
    let begin: { readonly file: string; readonly offset: number; readonly isCut: boolean } | undefined;
    let bytes = offset;
    for (const entry of await this.#list()) {
      if (begin === undefined) {
        if (await this.#isKnown(entry, { identity: file })) begin = { file, offset: 0, isCut: false };
        continue;
      }
      bytes += entry.isCompressed ? Infinity : entry.size;
      if (bytes > limitBytes) break;
      const identity = await this.#identityOf(entry);
      if (identity === "") break;
      begin = { file: identity, offset: 0, isCut: false };
    }
    return begin;
  }

  /** Whether the newest file has another inode. */
  async hasMoved(inode: string): Promise<boolean> {
    return (await statusOf(this.path))?.inode !== inode;
  }

  /** Several times before the known file is gone: during a rotation every name may be missing. */
  async #retry(search: () => Promise<Found | undefined>): Promise<Found> {
    for (let attempt = 1; attempt <= attempts; attempt += 1) {
      const found = await search();
      if (found !== undefined) return found;
      await sleep(pauseMs);
    }
    for (let attempt = 1; attempt <= attempts; attempt += 1) {
      const oldest = await this.#openOldest("gone");
      if (oldest !== undefined) return oldest;
    }
    return { kind: "nothing" };
  }

  /** Undefined when there is none, or when names changed meanwhile. */
  async #openOldest<Kind extends "next" | "gone">(kind: Kind): Promise<Opened<Kind> | undefined> {
    const only = await this.#openOnly(kind);
    if (only !== undefined) return only;
    const oldest = (await this.#list()).at(-1);
    if (oldest === undefined) return undefined;
    const opened = await this.#opened(kind, oldest);
    if (opened === undefined || (await this.#list()).at(-1)?.inode === oldest.inode) return opened;
    await opened.log.close();
    return undefined;
  }

  /** The newest file when it is the only one: it has its name before and after the directory shows no other one. */
  async #openOnly<Kind extends "next" | "gone">(kind: Kind): Promise<Opened<Kind> | undefined> {
    const status = await statusOf(this.path);
    const [entry, ...others] = status === undefined ? [] : await this.#names();
    if (status === undefined || entry?.path !== this.path || others.length > 0) return undefined;
    return this.#opened(kind, { ...entry, ...status });
  }

  /** Newest first. Names may change meanwhile, so an inode may be listed twice, or a file be missing. */
  async #list(): Promise<readonly Entry[]> {
    const entries: Entry[] = [];
    for (const entry of await this.#names()) {
      const status = await statusOf(entry.path);
      if (status !== undefined) entries.push({ ...entry, ...status });
    }
    return entries;
  }

  async #names(): Promise<readonly NamedFile[]> {
    const name = basename(this.path);
    const names = await readdir(dirname(this.path)).catch((error: unknown) => {
      if (hasCode(error, "ENOENT", "ENOTDIR")) return [];
      throw error;
    });
    const ages = new Map<number, NamedFile>();
    for (const found of names) {
      if (!found.startsWith(name)) continue;
      const match = /^(?:\.(\d{1,6}))?(\.gz)?$/.exec(found.slice(name.length));
      if (match === null) continue;
      const age = Number(match[1] ?? "0");
      const isCompressed = match[2] !== undefined;
      // While a file is being compressed both exist, and only the plain one is whole.
      if (isCompressed && ages.get(age)?.isCompressed === false) continue;
      ages.set(age, { path: join(dirname(this.path), found), age, isCompressed });
    }
    return [...ages.values()].sort((one, other) => one.age - other.age);
  }

  /** Undefined when the name is that of another file by now. */
  async #opened<Kind extends "next" | "gone">(kind: Kind, entry: Entry): Promise<Opened<Kind> | undefined> {
    const log = await this.#open(entry);
    if (log === undefined || log.inode === entry.inode) return log && { kind, log };
    await log.close();
    return undefined;
  }

  /** Undefined when there is no file of that name any more. */
  async #open({ path, isCompressed }: Entry): Promise<DockerLogFile | undefined> {
    try {
      return isCompressed ? await CompressedLog.open(path, this.archiveLimitBytes) : await openPlain(path);
    } catch (error) {
      if (hasCode(error, "ENOENT")) return undefined;
      throw error;
    }
  }

  async #isKnown(entry: Entry, { inode, identity }: KnownFile): Promise<boolean> {
    if (inode !== undefined && (entry.inode === inode || !entry.isCompressed)) return entry.inode === inode;
    return identity !== "" && (await this.#identityOf(entry)) === identity;
  }

  /** Empty when its first line cannot be read. */
  async #identityOf(entry: Entry): Promise<string> {
    const log = await this.#open(entry);
    if (log === undefined) return "";
    try {
      let chunk = Buffer.alloc(headBytes);
      let bytes = await log.read(chunk, 0, { isFresh: false });
      if (bytes === headBytes && !chunk.includes(newline)) {
        chunk = Buffer.alloc(longestLineBytes);
        bytes = await log.read(chunk, 0, { isFresh: false });
      }
      return identityOf(chunk.subarray(0, bytes));
    } finally {
      await log.close();
    }
  }
}

interface NamedFile {
  readonly path: string;
  /** 0 is the newest. */
  readonly age: number;
  readonly isCompressed: boolean;
}

interface Entry extends NamedFile {
  readonly inode: string;
  /** Bytes on the disk. */
  readonly size: number;
}

interface Opened<Kind extends "next" | "gone"> {
  readonly kind: Kind;
  readonly log: DockerLogFile;
}

async function statusOf(path: string): Promise<Pick<Entry, "inode" | "size"> | undefined> {
  const status = await stat(path, { bigint: true }).catch(() => undefined);
  return status && { inode: String(status.ino), size: Number(status.size) };
}

/** O_NOATIME, as an access time would be a write for each new entry. Only the owner or root may use it. */
async function openUntouched(path: string): Promise<FileHandle> {
  try {
    return await open(path, constants.O_RDONLY | constants.O_NOATIME);
  } catch (error) {
    if (!hasCode(error, "EPERM")) throw error;
    return open(path, "r");
  }
}

async function openPlain(path: string): Promise<PlainLog> {
  const handle = await openUntouched(path);
  try {
    const { ino } = await handle.stat({ bigint: true });
    return new PlainLog(handle, String(ino));
  } catch (error) {
    await handle.close();
    throw error;
  }
}
