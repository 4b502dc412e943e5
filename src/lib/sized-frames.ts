/** Cuts a stream of bytes into frames that begin with their size, as the helper programs send them. */

export interface FrameBounds {
  /** No frame is smaller: its size and what always follows. */
  readonly headBytes: number;
  readonly limitBytes: number;
}

export class SizedFrames<T> {
  #rest: Buffer = Buffer.alloc(0);

  /** `parse` gets a frame with its size. */
  constructor(
    private readonly bounds: FrameBounds,
    private readonly parse: (frame: Buffer) => T,
  ) {}

  /** What `chunk` completes. A size is a little-endian u32. Throws when the stream has none. */
  take(chunk: Buffer): readonly T[] {
    const { headBytes, limitBytes } = this.bounds;
    let bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const frames: T[] = [];
    while (bytes.length >= headBytes) {
      const size = bytes.readUInt32LE(0);
      if (size < headBytes || size > limitBytes) throw new Error("an answer of an impossible size");
      if (bytes.length < size) break;
      frames.push(this.parse(bytes.subarray(0, size)));
      bytes = bytes.subarray(size);
    }
    this.#rest = bytes;
    return frames;
  }
}
