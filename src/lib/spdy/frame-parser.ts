/** Parses the frames of the other side. Pure: header blocks stay compressed. */
import {
  controlBit,
  frameFlag,
  frameHeaderBytes,
  frameType,
  protocolVersion,
  violation,
  type Frame,
} from "./frames.js";

const idMask = 0x7fff_ffff;
/** Beside the types of control frames, which are 16 bits. */
const dataType = -1;
const understood: ReadonlySet<number> = new Set([
  frameType.synStream,
  frameType.synReply,
  frameType.rstStream,
  frameType.ping,
  frameType.goAway,
  frameType.headers,
]);

export interface FrameParserOptions {
  /** The largest payload of a control frame. Data frames may have any length, as they are not buffered. */
  readonly frameBytes: number;
  /** Set by a client, which opens streams and ignores the replies. */
  readonly ignoresReplies?: boolean;
}

/** Cuts chunks of any size into frames. Data is not copied; at most one control frame is buffered. */
export class FrameParser {
  readonly #controlLimitBytes: number;
  readonly #ignoresReplies: boolean;
  readonly #header = Buffer.allocUnsafe(frameHeaderBytes);
  #headerFilled = 0;
  /** The header of the current frame; undefined between frames. */
  #current: { readonly type: number; readonly streamId: number; readonly flags: number } | undefined;
  /** Missing bytes of the current payload. */
  #remaining = 0;
  /** The received part of a control frame's payload; undefined for data, and for ignored frames. */
  #payload: Buffer | undefined;

  constructor({ frameBytes, ignoresReplies = false }: FrameParserOptions) {
    this.#controlLimitBytes = frameBytes;
    this.#ignoresReplies = ignoresReplies;
  }

  /** The frames, and pieces of data frames, in `chunk`. Throws a violation; not to be used after that. */
  *read(chunk: Buffer): Generator<Frame, void, undefined> {
    let offset = 0;
    while (offset < chunk.length) {
      if (this.#current === undefined) {
        const copied = chunk.copy(this.#header, this.#headerFilled, offset);
        this.#headerFilled += copied;
        offset += copied;
        if (this.#headerFilled < frameHeaderBytes) return;
        this.#begin();
        // A frame without payload is complete with its header.
        if (this.#remaining > 0) continue;
      }
      const end = Math.min(chunk.length, offset + this.#remaining);
      const frame = this.#take(chunk.subarray(offset, end));
      offset = end;
      if (frame !== undefined) yield frame;
    }
  }

  #begin(): void {
    const header = this.#header;
    const first = header.readUInt16BE(0);
    const flags = header.readUInt8(4);
    this.#headerFilled = 0;
    this.#remaining = header.readUIntBE(5, 3);
    this.#payload = undefined;
    if (first < controlBit) {
      const streamId = header.readUInt32BE(0);
      if (streamId === 0) throw violation("a data frame of stream 0");
      this.#current = { type: dataType, streamId, flags };
      return;
    }
    const spoken = first & ~controlBit;
    if (spoken !== protocolVersion)
      throw violation(`a control frame of version ${spoken}, not ${protocolVersion}`);
    const type = header.readUInt16BE(2);
    this.#current = { type, streamId: 0, flags };
    // All others are ignored: settings, window updates, and unknown types.
    if (!understood.has(type) || (type === frameType.synReply && this.#ignoresReplies)) return;
    if (this.#remaining > this.#controlLimitBytes)
      throw violation(`a control frame of ${this.#remaining} bytes, more than ${this.#controlLimitBytes}`);
    this.#payload = Buffer.allocUnsafe(this.#remaining);
  }

  #take(bytes: Buffer): Frame | undefined {
    const current = this.#current;
    if (current === undefined) return undefined;
    const payload = this.#payload;
    if (payload !== undefined) bytes.copy(payload, payload.length - this.#remaining);
    this.#remaining -= bytes.length;
    const last = this.#remaining === 0;
    if (last) this.#current = undefined;
    if (current.type === dataType) {
      const fin = last && (current.flags & frameFlag.fin) !== 0;
      return { kind: "data", streamId: current.streamId, bytes, last, fin };
    }
    return last && payload !== undefined ? parseControl(current.type, current.flags, payload) : undefined;
  }
}

function parseControl(type: number, flags: number, payload: Buffer): Frame {
  const fin = (flags & frameFlag.fin) !== 0;
  switch (type) {
    case frameType.synStream: {
      atLeast(payload, 10, "SYN_STREAM");
      const unidirectional = (flags & frameFlag.unidirectional) !== 0;
      // The fields between id and block have no meaning for this server.
      return {
        kind: "synStream",
        streamId: readId(payload),
        fin,
        unidirectional,
        headerBlock: payload.subarray(10),
      };
    }
    case frameType.headers:
      atLeast(payload, 4, "HEADERS");
      return { kind: "headers", streamId: readId(payload), fin, headerBlock: payload.subarray(4) };
    case frameType.rstStream:
      exactly(payload, 8, "RST_STREAM");
      return { kind: "rstStream", streamId: readId(payload), status: payload.readUInt32BE(4) };
    case frameType.ping:
      exactly(payload, 4, "PING");
      return { kind: "ping", id: payload.readUInt32BE(0) };
    case frameType.goAway:
      exactly(payload, 8, "GOAWAY");
      return {
        kind: "goAway",
        lastStreamId: payload.readUInt32BE(0) & idMask,
        status: payload.readUInt32BE(4),
      };
    default:
      // This server opens no streams; and the block in it would be part of the compressor's state.
      throw violation("a SYN_REPLY, although no stream was opened to the client");
  }
}

function readId(payload: Buffer): number {
  const id = payload.readUInt32BE(0) & idMask;
  if (id === 0) throw violation("a control frame of stream 0");
  return id;
}

function atLeast(payload: Buffer, bytes: number, name: string): void {
  if (payload.length < bytes) throw violation(`a ${name} of ${payload.length} bytes`);
}

function exactly(payload: Buffer, bytes: number, name: string): void {
  if (payload.length !== bytes) throw violation(`a ${name} of ${payload.length} bytes`);
}
