/**
 * The frames of SPDY/3.1 that clients and servers of streams send. Header blocks stay compressed.
 *
 * A control frame is the bit 1, version (15 bits), type (16); a data frame is the bit 0 and the stream id
 * (31). Then both have flags (8 bits), length (24) and the payload.
 */
import { ShimError } from "../errors.js";

export const frameHeaderBytes = 8;

/** SPDY/3 and SPDY/3.1 have the same version and the same frames. */
export const protocolVersion = 3;
export const controlBit = 0x8000;

export const frameType = {
  synStream: 1,
  synReply: 2,
  rstStream: 3,
  settings: 4,
  ping: 6,
  goAway: 7,
  headers: 8,
} as const;
export const frameFlag = { fin: 1, unidirectional: 2 } as const;

/** Why a stream was reset. */
export const resetStatus = {
  protocolError: 1,
  invalidStream: 2,
  refusedStream: 3,
  cancel: 5,
  internalError: 6,
  streamAlreadyClosed: 9,
} as const;

/** Why the connection ends. */
export const goAwayStatus = { ok: 0, protocolError: 1, internalError: 2 } as const;
export type GoAwayStatus = (typeof goAwayStatus)[keyof typeof goAwayStatus];

export type Frame =
  /** A piece of a data frame, as it arrived; a frame without payload is one empty piece. */
  | {
      readonly kind: "data";
      readonly streamId: number;
      readonly bytes: Buffer;
      /** The frame is complete with this piece. */
      readonly last: boolean;
      /** The client sends no more on this stream; only with the last piece. */
      readonly fin: boolean;
    }
  | {
      readonly kind: "synStream";
      readonly streamId: number;
      readonly fin: boolean;
      /** Nothing may be sent on this stream. */
      readonly unidirectional: boolean;
      readonly headerBlock: Buffer;
    }
  | {
      readonly kind: "headers";
      readonly streamId: number;
      readonly fin: boolean;
      readonly headerBlock: Buffer;
    }
  | { readonly kind: "rstStream"; readonly streamId: number; readonly status: number }
  | { readonly kind: "ping"; readonly id: number }
  | { readonly kind: "goAway"; readonly lastStreamId: number; readonly status: number };

/** A protocol error of the client after which the connection cannot continue. */
export function violation(reason: string): ShimError {
  return new ShimError("invalid", `read SPDY frames: ${reason}`);
}

/** The header of a data frame, whose payload of `length` bytes follows. */
export function dataFrameHeader(
  streamId: number,
  length: number,
  { fin }: { readonly fin: boolean },
): Buffer {
  const header = Buffer.allocUnsafe(frameHeaderBytes);
  header.writeUInt32BE(streamId, 0);
  header.writeUInt8(fin ? frameFlag.fin : 0, 4);
  header.writeUIntBE(length, 5, 3);
  return header;
}

/** A control frame: `fields` of 32 bits each, then `rest`. */
export function controlFrame(type: number, flags: number, fields: readonly number[], rest?: Buffer): Buffer {
  const length = 4 * fields.length + (rest?.length ?? 0);
  const frame = Buffer.allocUnsafe(frameHeaderBytes + length);
  frame.writeUInt16BE(controlBit | protocolVersion, 0);
  frame.writeUInt16BE(type, 2);
  frame.writeUInt8(flags, 4);
  frame.writeUIntBE(length, 5, 3);
  fields.forEach((field, index) => frame.writeUInt32BE(field, frameHeaderBytes + 4 * index));
  rest?.copy(frame, frame.length - rest.length);
  return frame;
}

export function synReplyFrame(streamId: number, headerBlock: Buffer): Buffer {
  return controlFrame(frameType.synReply, 0, [streamId], headerBlock);
}

export function rstStreamFrame(streamId: number, status: number): Buffer {
  return controlFrame(frameType.rstStream, 0, [streamId, status]);
}

export function pingFrame(id: number): Buffer {
  return controlFrame(frameType.ping, 0, [id]);
}

export function goAwayFrame(lastStreamId: number, status: GoAwayStatus): Buffer {
  return controlFrame(frameType.goAway, 0, [lastStreamId, status]);
}

/** Settings without entries: a frame without effect and without an answer. */
export function emptySettingsFrame(): Buffer {
  return controlFrame(frameType.settings, 0, [0]);
}
