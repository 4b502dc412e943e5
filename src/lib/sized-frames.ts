/** Cuts a stream of bytes into frames that begin with their size, as the helper programs send them. */

export interface FrameBounds {
  /** No frame is smaller: its size and what always follows. */
  readonly headBytes: number;
  readonly limitBytes: number;
}

export class SizedFrames {
  #rest: Buffer = Buffer.alloc(0);

  constructor(private readonly bounds: FrameBounds) {}

  /** The frames that `chunk` completes, each with its size (a little-endian u32). Throws when the stream has none. */
  take(chunk: Buffer): readonly Buffer[] {
    const { headBytes, limitBytes } = this.bounds;
    let bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const frames: Buffer[] = [];
    while (bytes.length >= headBytes) {
      const size = bytes.readUInt32LE(0);
      if (size < headBytes || size > limitBytes) throw new Error("an answer of an impossible size");
      if (bytes.length < size) break;
      frames.push(bytes.subarray(0, size));
      bytes = bytes.subarray(size);
    }
    this.#rest = bytes;
    return frames;
  }
}
