/** Header blocks (RFC 9113 §4.3, §6.2): a HEADERS frame and the CONTINUATION frames behind it. */
import {
  encodeFrame,
  frameFlag,
  frameType,
  largestPayloadBytes,
  ProtocolError,
  type Frame,
} from "./frames.js";

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

/** Puts header blocks together. */
export class HeaderBlockReader {
  #open:
    { readonly first: Omit<HeaderBlock, "fields">; readonly fragments: Buffer[]; bytes: number } | undefined;

  /** Whether a block has begun and is not complete. */
  get isOpen(): boolean {
    return this.#open !== undefined;
  }

  /**
   * Takes every frame of the connection in order. The block that this frame completes, `"part"` when it belongs to
   * one that is not complete, undefined when it has nothing to do with header blocks.
   */
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

function parseHeaders({ flags, payload }: Frame): { readonly fragment: Buffer; readonly priority: Buffer } {
  let start = 0;
  let end = payload.length;
  if ((flags & frameFlag.padded) !== 0) {
    end -= payload[0] ?? 0;
    start = 1;
  }
  const priorityBytes = (flags & frameFlag.priority) !== 0 ? 5 : 0;
  if (start + priorityBytes > end) throw new ProtocolError("HEADERS shorter than its padding or priority");
  return {
    priority: payload.subarray(start, start + priorityBytes),
    fragment: payload.subarray(start + priorityBytes, end),
  };
}

/** The frames of `block`: one HEADERS frame and as many CONTINUATION frames as its size needs, without padding. */
export function encodeHeaderBlock({ streamId, endStream, priority, fields }: HeaderBlock): Buffer {
  const frames: Buffer[] = [];
  let type: number = frameType.headers;
  let flags = (endStream ? frameFlag.endStream : 0) | (priority.length > 0 ? frameFlag.priority : 0);
  let payload = Buffer.concat([priority, fields]);
  do {
    const rest = payload.subarray(largestPayloadBytes);
    if (rest.length === 0) flags |= frameFlag.endHeaders;
    frames.push(encodeFrame(type, flags, streamId, payload.subarray(0, largestPayloadBytes)));
    type = frameType.continuation;
    flags = 0;
    payload = rest;
  } while (payload.length > 0);
  return Buffer.concat(frames);
}
