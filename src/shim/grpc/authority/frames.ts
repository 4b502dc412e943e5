/** The framing layer of HTTP/2 (RFC 9113 §4): just enough to find header blocks in what a client sends. */

export const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");

export const frameType = { data: 0, headers: 1, reset: 3, settings: 4, ping: 6, continuation: 9 } as const;

/** SETTINGS and PING call the bit 0x1 "ack"; HEADERS and DATA call it "end of stream". */
export const frameFlag = { ack: 0x1, endStream: 0x1, endHeaders: 0x4, padded: 0x8, priority: 0x20 } as const;

export const frameHeaderBytes = 9;
/** The size that every peer must accept; nobody may send more, as this server never allows it. */
export const largestPayloadBytes = 16_384;

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly streamId: number;
  readonly payload: Buffer;
  /** Header and payload as they came. */
  readonly bytes: Buffer;
}

/** The client does not speak HTTP/2 as this server understands it; the connection is of no further use. */
export class ProtocolError extends Error {
  override readonly name = "ProtocolError";
}

/** The frame of `payload`. */
export function encodeFrame(type: number, flags: number, streamId: number, payload: Buffer): Buffer {
  const bytes = Buffer.allocUnsafe(frameHeaderBytes + payload.length);
  bytes.writeUIntBE(payload.length, 0, 3);
  bytes.writeUInt8(type, 3);
  bytes.writeUInt8(flags, 4);
  bytes.writeUInt32BE(streamId, 5);
  payload.copy(bytes, frameHeaderBytes);
  return bytes;
}

/**
 * Cuts the stream of a client into preface and frames, however it was chunked. Holds at most one incomplete frame
 * and copies each byte at most twice, even when they come one by one.
 */
export class FrameReader {
  /** The preface, the header of a frame or a whole frame, of which `#filled` bytes are there. */
  #pending: Buffer = Buffer.allocUnsafe(preface.length);
  #filled = 0;
  #prefaceRead = false;

  /** The frames that `chunk` completes. A ProtocolError when these cannot be the bytes of an HTTP/2 client. */
  *read(chunk: Buffer): Generator<Frame> {
    let offset = 0;
    while (offset < chunk.length) {
      if (this.#filled === 0 && this.#prefaceRead) {
        const whole = wholeFrame(chunk, offset);
        if (whole !== undefined) {
          offset += whole.length;
          yield parseFrame(whole);
          continue;
        }
      }
      const copied = chunk.copy(this.#pending, this.#filled, offset);
      this.#filled += copied;
      offset += copied;
      const frame = this.#advance();
      if (frame !== undefined) yield frame;
    }
  }

  /** The bytes of the frame (or preface) that is not complete yet. */
  get incomplete(): Buffer {
    return this.#pending.subarray(0, this.#filled);
  }

  get prefaceRead(): boolean {
    return this.#prefaceRead;
  }

  #advance(): Frame | undefined {
    if (!this.#prefaceRead) {
      if (!this.incomplete.equals(preface.subarray(0, this.#filled)))
        throw new ProtocolError("not an HTTP/2 client");
      if (this.#filled === preface.length) {
        this.#prefaceRead = true;
        this.#startFrame();
      }
      return undefined;
    }
    if (this.#filled < this.#pending.length) return undefined;
    if (this.#pending.length === frameHeaderBytes) {
      const length = frameLength(this.#pending, 0);
      if (length > 0) {
        const grown = Buffer.allocUnsafe(frameHeaderBytes + length);
        this.#pending.copy(grown);
        this.#pending = grown;
        return undefined;
      }
    }
    const complete = this.#pending;
    this.#startFrame();
    return parseFrame(complete);
  }

  #startFrame(): void {
    this.#pending = Buffer.allocUnsafe(frameHeaderBytes);
    this.#filled = 0;
  }
}

function frameLength(bytes: Buffer, offset: number): number {
  const length = bytes.readUIntBE(offset, 3);
  if (length > largestPayloadBytes) throw new ProtocolError(`a frame of ${String(length)} bytes`);
  return length;
}

function wholeFrame(chunk: Buffer, offset: number): Buffer | undefined {
  if (chunk.length - offset < frameHeaderBytes) return undefined;
  const end = offset + frameHeaderBytes + frameLength(chunk, offset);
  return end <= chunk.length ? chunk.subarray(offset, end) : undefined;
}

function parseFrame(bytes: Buffer): Frame {
  return {
    type: bytes.readUInt8(3),
    flags: bytes.readUInt8(4),
    streamId: bytes.readUInt32BE(5) & 0x7fffffff,
    payload: bytes.subarray(frameHeaderBytes),
    bytes,
  };
}
