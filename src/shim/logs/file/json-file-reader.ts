/** Reads Docker's json-file log of one container from a position onwards, across rotations. */
import type { DockerLogFile } from "./docker-log-file.js";
import { identityOf, type Found, RotatedFiles } from "./rotated-files.js";

export interface ReaderOptions {
  /** `LogPath` of the container. */
  readonly path: string;
  /** A compressed file that unpacks to more is damaged. */
  readonly archiveLimitBytes: number;
  /** `max-size`, when Docker keeps one file, and empties it before an entry that exceeds this size. */
  readonly emptiedAtBytes: number | undefined;
}

/** All entries before it are processed. */
export interface ReaderPosition {
  /** Result of `identityOf`. */
  readonly file: string;
  readonly offset: number;
}

/** Where the reader is after the end of a file. */
export type Step =
  /** In the same file: there is no newer one. */
  | "end"
  /** In the next file. Nothing is missing. */
  | "next"
  /** In the oldest file that is left. Entries in between are lost. */
  | "gap"
  /** In the next file. The one before was damaged, and its rest is lost: see `damage`. */
  | "damaged";

const newline = 0x0a;
const headBytes = 512;
/** The longest incomplete entry at the end of a file. */
const longestRestBytes = 1024 * 1024;

export class JsonFileReader {
  readonly #files: RotatedFiles;
  #file: DockerLogFile | undefined;
  #head: Buffer = Buffer.alloc(0);
  #identity = "";
  #offset = 0;
  /** Holds until an entry of this file is processed; after a gap until this file was read. */
  #before: { readonly at: ReaderPosition; readonly isGap: boolean } | undefined;
  #damage = "";

  constructor(private readonly options: ReaderOptions) {
    this.#files = new RotatedFiles(options.path, options.archiveLimitBytes);
  }

  get isOpen(): boolean {
    return this.#file !== undefined;
  }

  /** To continue at after a restart. */
  get position(): ReaderPosition {
    return this.#before?.at ?? { file: this.#identity, offset: this.#offset };
  }

  /** In the present file, whose identity is empty before its first entry was read. */
  get place(): ReaderPosition {
    return { file: this.#identity, offset: this.#offset };
  }

  /** Why the rest of the last damaged file could not be read. */
  get damage(): string {
    return this.#damage;
  }

  /** Opens the file of a position, empty for the oldest, also after `close`. Undefined without any file. */
  async open(position: ReaderPosition): Promise<Step | undefined> {
    const found = await this.#files.openKnown(position.file);
    if (found.kind === "nothing" || found.kind === "newest") return undefined;
    const isGap = found.kind === "gone";
    await this.#use(found.log);
    this.#before = isGap ? { at: position, isGap } : undefined;
    if (isGap) return "gap";
    if (position.file !== "") {
      this.#identity = position.file;
      this.#offset = position.offset;
      await this.#readHead();
    }
    return "next";
  }

  /** From the position, which `advance` moves; 0 at the end. `isFresh`: see `DockerLogFile`. */
  async read(buffer: Buffer, { isFresh }: { readonly isFresh: boolean }): Promise<number> {
    if (this.#file === undefined) return 0;
    const bytesRead = await this.#file.read(buffer, this.#offset, { isFresh });
    if (this.options.emptiedAtBytes !== undefined && bytesRead > 0 && !(await this.#hasSameHead())) return 0;
    if (this.#offset === 0 && bytesRead > 0) {
      this.#identity = identityOf(buffer.subarray(0, bytesRead));
      this.#head = Buffer.from(buffer.subarray(0, Math.min(bytesRead, headBytes)));
      if (this.#before?.isGap === true) this.#before = undefined;
    }
    return bytesRead;
  }

  /** The first `bytes` of the last read are processed. */
  advance(bytes: number): void {
    if (bytes === 0) return;
    this.#offset += bytes;
    this.#before = undefined;
  }

  /** At the end of a file: goes to the next one, if any. */
  async next(): Promise<Step> {
    if (this.#file === undefined) return "end";
    if (this.options.emptiedAtBytes !== undefined) {
      const emptied = await this.#restartEmptied(this.options.emptiedAtBytes);
      if (emptied !== undefined) return emptied;
    }
    const { inode, damage } = this.#file;
    if (!(await this.#files.hasMoved(inode))) return "end";
    const found: Found = await this.#files.after({ inode, identity: this.#identity });
    if (found.kind === "newest" || found.kind === "nothing") return "end";
    // The engine may have written to the old file until the new one existed.
    if (await this.#hasMore()) {
      await found.log.close();
      return "next";
    }
    const at = this.position;
    const step = damage !== undefined ? "damaged" : found.kind === "gone" ? "gap" : "next";
    await this.#use(found.log);
    this.#damage = damage ?? "";
    this.#before = { at, isGap: step !== "next" };
    return step;
  }

  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = undefined;
  }

  async #use(file: DockerLogFile): Promise<void> {
    await this.#file?.close();
    this.#file = file;
    this.#identity = "";
    this.#head = Buffer.alloc(0);
    this.#offset = 0;
  }

  /** An incomplete last entry does not count: the engine was killed while it wrote that. */
  async #hasMore(): Promise<boolean> {
    return (await this.#readAt(this.#offset, longestRestBytes)).includes(newline);
  }

  /** The file was emptied: "next" when all old entries were read, "gap" when that is not known. */
  async #restartEmptied(capacity: number): Promise<Step | undefined> {
    if (this.#file === undefined || this.#offset === 0) return undefined;
    const isShorter = (await this.#readAt(this.#offset - 1, 1)).length === 0;
    if (!isShorter && (await this.#hasSameHead())) return undefined;
    const wasComplete = this.#offset >= capacity;
    const at = this.position;
    this.#identity = "";
    this.#head = Buffer.alloc(0);
    this.#offset = 0;
    this.#before = wasComplete ? { at, isGap: false } : undefined;
    return wasComplete ? "next" : "gap";
  }

  async #hasSameHead(): Promise<boolean> {
    if (this.#file === undefined || this.#head.length === 0) return true;
    return (await this.#readAt(0, this.#head.length)).equals(this.#head);
  }

  async #readHead(): Promise<void> {
    if (this.options.emptiedAtBytes === undefined) return;
    this.#head = Buffer.from(await this.#readAt(0, Math.min(headBytes, this.#offset)));
  }

  async #readAt(offset: number, bytes: number): Promise<Buffer> {
    const buffer = Buffer.alloc(bytes);
    const bytesRead = (await this.#file?.read(buffer, offset, { isFresh: false })) ?? 0;
    return buffer.subarray(0, bytesRead);
  }
}
