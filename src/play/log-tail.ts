/** Reads on in a log file that grows, is rotated under its name, or is not there yet. */
import type { FileHandle } from "node:fs/promises";
import { open, stat } from "node:fs/promises";

const chunkBytes = 64 * 1024;

export class LogTail implements AsyncDisposable {
  #file: FileHandle | undefined;
  #inode = 0n;
  #offset = 0;
  #rest = Buffer.alloc(0);

  constructor(private readonly path: string) {}

  /** The lines that were completed since the last call. */
  async read(): Promise<readonly string[]> {
    const lines: string[] = [];
    const current = await this.#current();
    // What was written before a rotation comes first.
    if (this.#file !== undefined) await this.#drain(this.#file, lines);
    if (current !== undefined && (this.#file === undefined || current.inode !== this.#inode)) {
      await this.#file?.close();
      this.#file = await open(this.path, "r");
      this.#inode = (await this.#file.stat({ bigint: true })).ino;
      this.#offset = 0;
      await this.#drain(this.#file, lines);
    }
    return lines;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file?.close();
    this.#file = undefined;
  }

  async #current(): Promise<{ readonly inode: bigint } | undefined> {
    try {
      return { inode: (await stat(this.path, { bigint: true })).ino };
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
      throw error;
    }
  }

  async #drain(file: FileHandle, lines: string[]): Promise<void> {
    if ((await file.stat()).size < this.#offset) this.#offset = 0; // Cut short in place.
    for (;;) {
      const { bytesRead, buffer } = await file.read(Buffer.alloc(chunkBytes), 0, chunkBytes, this.#offset);
      if (bytesRead === 0) return;
      this.#offset += bytesRead;
      let data = Buffer.concat([this.#rest, buffer.subarray(0, bytesRead)]);
      for (let end = data.indexOf(0x0a); end !== -1; end = data.indexOf(0x0a)) {
        lines.push(data.toString("utf8", 0, end));
        data = data.subarray(end + 1);
      }
      this.#rest = Buffer.from(data);
    }
  }
}
