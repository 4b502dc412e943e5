/** Follows a log file that grows and is rotated. */
import type { GrowingFile, HostFiles } from "./files.js";

const chunkBytes = 64 * 1024;
/** A longer line of a log file is taken in parts. */
const longestLineBytes = 1024 * 1024;

/** Reads the lines of a log file as they come, also after rotations. */
export class LogTail implements AsyncDisposable {
  #file: GrowingFile | undefined;
  #offset = 0;
  #rest = Buffer.alloc(0);

  constructor(
    private readonly path: string,
    private readonly files: Pick<HostFiles, "openFile">,
  ) {}

  /** Gives the lines that were completed until now; `pace` is awaited in between. Whether there is a file. */
  async read(take: (line: string) => void, pace?: () => Promise<void>): Promise<boolean> {
    const isNew = this.#file === undefined;
    this.#file ??= await this.files.openFile(this.path);
    if (this.#file === undefined) return false;
    // Asked first: what is written to a rotated file came before it was rotated.
    const isReplaced = !isNew && (await this.#file.isReplaced());
    await this.#drain(this.#file, take, pace);
    if (!isReplaced) return true;
    this.#end(take);
    await this.#file[Symbol.asyncDispose]();
    this.#file = undefined;
    this.#offset = 0;
    await this.read(take, pace);
    return true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file?.[Symbol.asyncDispose]();
    this.#file = undefined;
  }

  async #drain(file: GrowingFile, take: (line: string) => void, pace?: () => Promise<void>): Promise<void> {
    const end = await file.size();
    // Cut short in place.
    if (end < this.#offset) {
      this.#offset = 0;
      this.#rest = Buffer.alloc(0);
    }
    while (this.#offset < end) {
      const chunk = await file.read(this.#offset, Math.min(chunkBytes, end - this.#offset));
      if (chunk.length === 0) return;
      this.#offset += chunk.length;
      let data = Buffer.concat([this.#rest, chunk]);
      for (let at = data.indexOf(0x0a); at !== -1; at = data.indexOf(0x0a)) {
        take(data.toString("utf8", 0, at));
        data = data.subarray(at + 1);
      }
      this.#rest = Buffer.from(data);
      if (this.#rest.length >= longestLineBytes) this.#end(take);
      await pace?.();
    }
  }

  #end(take: (line: string) => void): void {
    if (this.#rest.length > 0) take(this.#rest.toString("utf8"));
    this.#rest = Buffer.alloc(0);
  }
}
