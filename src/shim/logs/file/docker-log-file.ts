/** One open log file of Docker's: a plain one, or a compressed one that is unpacked while it is read. */
import { readSync } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { createGunzip, type Gunzip } from "node:zlib";
import { messageOf } from "../../../lib/errors.js";
import { hasCode } from "../../../lib/files/file-errors.js";

export interface DockerLogFile {
  /** Identifies the file also after a rename: as long as it is open, no other file has this inode. */
  readonly inode: string;
  /** Why its rest cannot be read; undefined for a whole file. */
  readonly damage: string | undefined;
  /** Fills `buffer` from `offset`. `isFresh`: in memory, so that a synchronous read is faster. */
  read(buffer: Buffer, offset: number, options: { readonly isFresh: boolean }): Promise<number>;
  close(): Promise<void>;
}

export class PlainLog implements DockerLogFile {
  readonly damage = undefined;

  constructor(
    private readonly handle: FileHandle,
    readonly inode: string,
  ) {}

  async read(buffer: Buffer, offset: number, { isFresh }: { readonly isFresh: boolean }): Promise<number> {
    if (isFresh) return readSync(this.handle.fd, buffer, 0, buffer.length, offset);
    return (await this.handle.read(buffer, 0, buffer.length, offset)).bytesRead;
  }

  async close(): Promise<void> {
    await this.handle.close();
  }
}

/** Unpacks to at most a thousand times as many bytes, which are held in memory. */
const pieceBytes = 8 * 1024;

/** Unpacks in memory, piece by piece. A damaged archive ends at the damage, at the same byte each time. */
export class CompressedLog implements DockerLogFile {
  #gunzip: Gunzip | undefined;
  readonly #input = Buffer.allocUnsafe(pieceBytes);
  #inputOffset = 0;
  #damage: string | undefined;
  #isAtEnd = false;
  /** The unpacked bytes from `#start` on. */
  #unpacked: Buffer[] = [];
  #unpackedBytes = 0;
  #start = 0;

  private constructor(
    private readonly handle: FileHandle,
    readonly inode: string,
    private readonly limitBytes: number,
  ) {}

  /** An archive that unpacks to more than `limitBytes` is damaged from there on. */
  static async open(path: string, limitBytes: number): Promise<CompressedLog> {
    const handle = await open(path, "r");
    try {
      const { ino } = await handle.stat({ bigint: true });
      return new CompressedLog(handle, String(ino), limitBytes);
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  get damage(): string | undefined {
    return this.#damage;
  }

  async read(buffer: Buffer, offset: number): Promise<number> {
    if (offset < this.#start) this.#rewind();
    this.#drop(offset);
    while (!this.#isAtEnd && this.#start + this.#unpackedBytes < offset + buffer.length) {
      await this.#unpackPiece();
      this.#drop(offset);
    }
    if (this.#start < offset) return 0;
    let size = 0;
    for (const piece of this.#unpacked) {
      if (size === buffer.length) break;
      size += piece.copy(buffer, size);
    }
    return size;
  }

  async close(): Promise<void> {
    this.#rewind();
    await this.handle.close();
  }

  #rewind(): void {
    this.#gunzip?.destroy();
    this.#gunzip = undefined;
    this.#inputOffset = 0;
    this.#isAtEnd = false;
    this.#unpacked = [];
    this.#unpackedBytes = 0;
    this.#start = 0;
  }

  /** Drops the bytes before `offset`. */
  #drop(offset: number): void {
    for (let first = this.#unpacked[0]; first !== undefined && this.#start < offset;) {
      const bytes = Math.min(first.length, offset - this.#start);
      this.#start += bytes;
      this.#unpackedBytes -= bytes;
      if (bytes < first.length) this.#unpacked[0] = first.subarray(bytes);
      else this.#unpacked.shift();
      first = this.#unpacked[0];
    }
  }

  async #unpackPiece(): Promise<void> {
    const gunzip = (this.#gunzip ??= this.#begin());
    const piece = await this.#readPiece();
    try {
      if (piece === undefined) return;
      if (piece.length > 0) await written(gunzip, piece);
      else {
        await ended(gunzip);
        this.#isAtEnd = true;
      }
    } catch (error) {
      this.#endDamaged(messageOf(error));
    }
    if (this.#start + this.#unpackedBytes > this.limitBytes) {
      this.#endDamaged(`it unpacks to more than ${this.limitBytes} bytes`);
    }
  }

  /** Empty at the end of the archive; undefined when the disk is faulty. Throws errors that may pass. */
  async #readPiece(): Promise<Buffer | undefined> {
    try {
      const { bytesRead } = await this.handle.read(this.#input, 0, pieceBytes, this.#inputOffset);
      this.#inputOffset += bytesRead;
      return this.#input.subarray(0, bytesRead);
    } catch (error) {
      if (!hasCode(error, "EIO")) throw error;
      this.#endDamaged(messageOf(error));
      return undefined;
    }
  }

  #begin(): Gunzip {
    const gunzip = createGunzip();
    gunzip.on("data", (piece: Buffer) => {
      this.#unpacked.push(piece);
      this.#unpackedBytes += piece.length;
    });
    // The pending write rejects with the error, too.
    gunzip.on("error", () => undefined);
    return gunzip;
  }

  #endDamaged(reason: string): void {
    this.#damage = reason;
    this.#isAtEnd = true;
    this.#gunzip?.destroy();
  }
}

/** Resolves when all of `piece` is unpacked. */
function written(gunzip: Gunzip, piece: Buffer): Promise<void> {
  return settled(gunzip, (done) => gunzip.write(piece, done));
}

/** Resolves when the archive ends here, rejects when it is truncated. */
function ended(gunzip: Gunzip): Promise<void> {
  return settled(gunzip, () => gunzip.end());
}

/** `done` is not called when the archive is damaged, and not for bytes behind its end. */
async function settled(gunzip: Gunzip, work: (done: () => void) => void): Promise<void> {
  if (gunzip.readableEnded) return;
  await new Promise<void>((resolve, reject) => {
    const clear = (): void => {
      gunzip.off("error", onError).off("end", onDone);
    };
    const onError = (error: Error): void => {
      clear();
      reject(error);
    };
    const onDone = (): void => {
      clear();
      resolve();
    };
    gunzip.once("error", onError).once("end", onDone);
    work(onDone);
  });
}
