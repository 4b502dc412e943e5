/** The framing layer of HTTP/2 (RFC 9113 §4): frames, and the header blocks (§4.3, §6.2) that they carry. */

export const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");

export const frameType = {
  data: 0,
  headers: 1,
  reset: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

/** SETTINGS and PING call the bit 0x1 "ack"; HEADERS calls it "end of stream". */
export const frameFlag = { ack: 0x1, endStream: 0x1, endHeaders: 0x4, padded: 0x8, priority: 0x20 } as const;

const frameHeaderBytes = 9;
/** The default of SETTINGS_MAX_FRAME_SIZE, which this server never raises. */
const defaultPayloadBytes = 16_384;

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly streamId: number;
  readonly payload: Buffer;
  /** Header and payload as they came. */
  readonly bytes: Buffer;
}

/** A peer violates the protocol. The connection must be closed. */
export class ProtocolError extends Error {
  override readonly name = "ProtocolError";
}

/** The frame of `payload`. */
export function encodeFrame(type: number, flags: number, streamId: number, payload: Buffer): Buffer {
  const bytes = Buffer.allocUnsafe(frameHeaderBytes + payload.length);
  writeFrameHead(bytes, type, flags, streamId, payload.length);
  payload.copy(bytes, frameHeaderBytes);
  return bytes;
}

/** What is in front of a payload of `length` bytes. */
export function encodeFrameHead(type: number, flags: number, streamId: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(frameHeaderBytes);
  writeFrameHead(bytes, type, flags, streamId, length);
  return bytes;
}

function writeFrameHead(bytes: Buffer, type: number, flags: number, streamId: number, length: number): void {
  bytes.writeUIntBE(length, 0, 3);
  bytes.writeUInt8(type, 3);
  bytes.writeUInt8(flags, 4);
  bytes.writeUInt32BE(streamId, 5);
}

export interface FrameReaderOptions {
  /** Servers send no preface. */
  readonly from?: "client" | "server";
  /** A larger frame is a ProtocolError. */
  readonly largestPayloadBytes?: number;
}

/** Cuts the bytes of a peer into preface and frames; holds at most one incomplete frame. */
export class FrameReader {
  /** The preface, the header of a frame or a whole frame, of which `#filled` bytes are there. */
  #pending: Buffer;
  #filled = 0;
  #prefaceRead: boolean;
  readonly #largestPayloadBytes: number;

  constructor({ from = "client", largestPayloadBytes = defaultPayloadBytes }: FrameReaderOptions = {}) {
    this.#prefaceRead = from === "server";
    this.#pending = Buffer.allocUnsafe(this.#prefaceRead ? frameHeaderBytes : preface.length);
    this.#largestPayloadBytes = largestPayloadBytes;
  }

  /** The frames that `chunk` completes. Throws ProtocolError when the client does not speak HTTP/2. */
  *read(chunk: Buffer): Generator<Frame> {
    let offset = 0;
    while (offset < chunk.length) {
      if (this.#filled === 0 && this.#prefaceRead) {
        const whole = this.#wholeFrame(chunk, offset);
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
      const length = this.#frameLength(this.#pending, 0);
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

  #wholeFrame(chunk: Buffer, offset: number): Buffer | undefined {
    if (chunk.length - offset < frameHeaderBytes) return undefined;
    const end = offset + frameHeaderBytes + this.#frameLength(chunk, offset);
    return end <= chunk.length ? chunk.subarray(offset, end) : undefined;
  }

  #frameLength(bytes: Buffer, offset: number): number {
    const length = bytes.readUIntBE(offset, 3);
    if (length > this.#largestPayloadBytes) throw new ProtocolError(`a frame of ${length} bytes`);
    return length;
  }
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

/** More than any client needs: Node refuses header lists above 64 KiB once they are decoded. */
const largestBlockBytes = 128 * 1024;

export interface HeaderBlock {
  readonly streamId: number;
  readonly endStream: boolean;
  /** The 5 bytes of dependency and weight, when the PRIORITY flag is set. */
  readonly priority: Buffer;
  /** The HPACK encoded fields. */
  readonly fields: Buffer;
}

/** Joins the HEADERS frame and the CONTINUATION frames of each header block. */
export class HeaderBlockReader {
  #open:
    { readonly first: Omit<HeaderBlock, "fields">; readonly fragments: Buffer[]; bytes: number } | undefined;

  /** Whether a block has begun and is not complete. */
  get isOpen(): boolean {
    return this.#open !== undefined;
  }

  /** The block that a frame completes, `"part"` for one of an incomplete block, undefined for others. */
  read(frame: Frame): HeaderBlock | "part" | undefined {
    if (this.#open === undefined) {
      if (frame.type === frameType.continuation) throw new ProtocolError("CONTINUATION without HEADERS");
      if (frame.type !== frameType.headers) return undefined;
      const { fragment, priority } = parseHeaders(frame);
      const first = {
        streamId: frame.streamId,
        endStream: (frame.flags & frameFlag.endStream) !== 0,
        priority,
      };
      this.#open = { first, fragments: [fragment], bytes: 0 };
    } else {
      if (frame.type !== frameType.continuation || frame.streamId !== this.#open.first.streamId) {
        throw new ProtocolError("a header block is interrupted");
      }
      this.#open.fragments.push(frame.payload);
    }
    // Frame headers count too: empty CONTINUATION frames must not be free.
    this.#open.bytes += frame.bytes.length;
    if (this.#open.bytes > largestBlockBytes) throw new ProtocolError("a header block is too large");
    if ((frame.flags & frameFlag.endHeaders) === 0) return "part";
    const { first, fragments } = this.#open;
    this.#open = undefined;
    return { ...first, fields: Buffer.concat(fragments) };
  }
}

function parseHeaders(frame: Frame): { readonly fragment: Buffer; readonly priority: Buffer } {
  const content = withoutPadding(frame);
  const priorityBytes = (frame.flags & frameFlag.priority) !== 0 ? 5 : 0;
  if (priorityBytes > content.length) throw new ProtocolError("HEADERS shorter than its priority");
  return { priority: content.subarray(0, priorityBytes), fragment: content.subarray(priorityBytes) };
}

/** The payload of a DATA or HEADERS frame without its padding (§6.1). */
export function withoutPadding({ flags, payload }: Frame): Buffer {
  if ((flags & frameFlag.padded) === 0) return payload;
  const end = payload.length - (payload[0] ?? 0);
  if (end < 1) throw new ProtocolError("a frame shorter than its padding");
  return payload.subarray(1, end);
}

/** One HEADERS frame and as many CONTINUATION frames as the size of `block` needs, without padding. */
export function encodeHeaderBlock({ streamId, endStream, priority, fields }: HeaderBlock): Buffer {
  const frames: Buffer[] = [];
  let type: number = frameType.headers;
  let flags = (endStream ? frameFlag.endStream : 0) | (priority.length > 0 ? frameFlag.priority : 0);
  let payload = Buffer.concat([priority, fields]);
  do {
    const rest = payload.subarray(defaultPayloadBytes);
    if (rest.length === 0) flags |= frameFlag.endHeaders;
    frames.push(encodeFrame(type, flags, streamId, payload.subarray(0, defaultPayloadBytes)));
    type = frameType.continuation;
    flags = 0;
    payload = rest;
  } while (payload.length > 0);
  return Buffer.concat(frames);
}
