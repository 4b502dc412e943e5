/** Docker's json-file log of one container, read from a position onwards, across rotations. */
import { readSync } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { identityOf, type Found, type OpenLog, RotatedFiles } from "./rotated-files.js";

export interface ReaderOptions {
  /** `LogPath` of the container. */
  readonly path: string;
  readonly scratchPath: string;
  /**
   * Of `max-size`, when Docker keeps no second file and empties the only one instead; undefined otherwise. It does so
   * before the first entry that finds the file so large.
   */
  readonly emptiedAtBytes: number | undefined;
}

/** Where the reader went when the end of a file was reached. */
export type Step =
  /** There is nothing newer. */
  | "end"
  /** In the next file, nothing is missing. */
  | "next"
  /** In the oldest file that is left; what was in between is lost. */
  | "gap";

const newline = 0x0a;
const headBytes = 512;

export class JsonFileReader {
  readonly #files: RotatedFiles;
  #handle: FileHandle | undefined;
  #inode = "";
  #head: Buffer = Buffer.alloc(0);
  #identity = "";
  #offset = 0;
  /** As long as nothing of a file has been read, one goes on after the file before it. */
  #before: { readonly file: string; readonly offset: number } | undefined;

  constructor(private readonly options: ReaderOptions) {
    this.#files = new RotatedFiles(options.path, options.scratchPath);
  }

  get isOpen(): boolean {
    return this.#handle !== undefined;
  }

  /** What to begin with after a restart, when all entries before have been written. */
  get position(): { readonly file: string; readonly offset: number } {
    return this.#before ?? { file: this.#identity, offset: this.#offset };
  }

  /** Opens the file of a position, empty for the oldest. False when there is no file at all yet. Once. */
  async open(position: { readonly file: string; readonly offset: number }): Promise<Step | undefined> {
    const found = await this.#files.openKnown(position.file);
    if (found.kind === "nothing" || found.kind === "newest") return undefined;
    await this.#use(found.log);
    this.#before = undefined;
    if (found.kind === "gone") return "gap";
    if (position.file !== "") {
      this.#identity = position.file;
      this.#offset = position.offset;
      await this.#readHead();
    }
    return "next";
  }

  /**
   * Fills `buffer` from the present position, which stays: `advance` moves it. 0 at the end of the file. `isFresh`: what is
   * to be read was written a moment ago, so it is in memory, and a read is over sooner than a thread is woken for it.
   */
  async read(buffer: Buffer, { isFresh }: { readonly isFresh: boolean }): Promise<number> {
    if (this.#handle === undefined) return 0;
    const bytesRead = isFresh
      ? readSync(this.#handle.fd, buffer, 0, buffer.length, this.#offset)
      : (await this.#handle.read(buffer, 0, buffer.length, this.#offset)).bytesRead;
    if (this.options.emptiedAtBytes !== undefined && bytesRead > 0 && !(await this.#hasSameHead())) return 0;
    if (this.#offset === 0 && bytesRead > 0) {
      this.#identity = identityOf(buffer.subarray(0, bytesRead));
      this.#head = Buffer.from(buffer.subarray(0, Math.min(bytesRead, headBytes)));
    }
    return bytesRead;
  }

  /** `bytes` of what was read last are done with. */
  advance(bytes: number): void {
    if (bytes === 0) return;
    this.#offset += bytes;
    this.#before = undefined;
  }

  /** At the end of a file: goes to the next one if there is one. */
  async next(): Promise<Step> {
    if (this.#handle === undefined) return "end";
    if (this.options.emptiedAtBytes !== undefined) {
      const emptied = await this.#restartEmptied(this.options.emptiedAtBytes);
      if (emptied !== undefined) return emptied;
    }
    if (this.#inode !== "" && !(await this.#files.hasMoved(this.#inode))) return "end";
    const found: Found = await this.#files.after(
      this.#inode === "" ? { identity: this.#identity } : { inode: this.#inode, identity: this.#identity },
    );
    if (found.kind === "newest" || found.kind === "nothing") return "end";
    // The engine may have written to the old file until the new one was there.
    if (await this.#hasMore()) {
      await found.log.handle.close();
      return "next";
    }
    const before = this.position;
    await this.#use(found.log);
    this.#before = found.kind === "gone" ? undefined : before;
    return found.kind === "gone" ? "gap" : "next";
  }

  async close(): Promise<void> {
    await this.#handle?.close();
    this.#handle = undefined;
  }

  async #use({ handle, inode }: OpenLog): Promise<void> {
    await this.#handle?.close();
    this.#handle = handle;
    this.#inode = inode;
    this.#identity = "";
    this.#head = Buffer.alloc(0);
    this.#offset = 0;
  }

  /** A last, torn entry is no more: the engine that left it is gone, and it was never whole. */
  async #hasMore(): Promise<boolean> {
    if (this.#handle === undefined) return false;
    const { size } = await this.#handle.stat();
    if (size <= this.#offset) return false;
    const rest = Buffer.alloc(Math.min(size - this.#offset, 1024 * 1024));
    const { bytesRead } = await this.#handle.read(rest, 0, rest.length, this.#offset);
    return rest.subarray(0, bytesRead).includes(newline);
  }

  /** The file begins anew: "next" when all of its old content was read, "gap" when that cannot be told. */
  async #restartEmptied(capacity: number): Promise<Step | undefined> {
    if (this.#handle === undefined || this.#offset === 0) return undefined;
    const { size } = await this.#handle.stat();
    if (size >= this.#offset && (await this.#hasSameHead())) return undefined;
    const wasComplete = this.#offset >= capacity;
    const before = this.position;
    this.#identity = "";
    this.#head = Buffer.alloc(0);
    this.#offset = 0;
    this.#before = wasComplete ? before : undefined;
    return wasComplete ? "next" : "gap";
  }

  async #hasSameHead(): Promise<boolean> {
    if (this.#handle === undefined || this.#head.length === 0) return true;
    const now = Buffer.alloc(this.#head.length);
    const { bytesRead } = await this.#handle.read(now, 0, now.length, 0);
    return bytesRead === now.length && now.equals(this.#head);
  }

  async #readHead(): Promise<void> {
    if (this.#handle === undefined) return;
    const head = Buffer.alloc(headBytes);
    const { bytesRead } = await this.#handle.read(head, 0, head.length, 0);
    this.#head = Buffer.from(head.subarray(0, Math.min(bytesRead, this.#offset)));
  }
}
