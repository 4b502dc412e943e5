/** Replaces each `:authority` that Node.js would refuse. */
import {
  encodeFrame,
  encodeHeaderBlock,
  FrameReader,
  frameFlag,
  frameType,
  HeaderBlockReader,
  preface,
  type Frame,
} from "../../../lib/http2/frames.js";
import { encodeFields, HpackDecoder, type HeaderField } from "../../../lib/http2/hpack.js";

/** No code of this program reads the authority, so any valid one will do. */
const replacement = "localhost";
/** The characters that nghttp2 accepts; it wants at least one. */
const acceptable = /^[-A-Za-z0-9._~!$&'()*+,;=%:@[\]]+$/;

/** `fields` with an authority that Node accepts; the same array for none to change, or no request. */
export function repairAuthority(fields: readonly HeaderField[]): readonly HeaderField[] {
  // Trailers have no pseudo-header fields and must not get one.
  if (!fields.some(({ name }) => name === ":method")) return fields;
  const authorities = fields.filter(namesAuthority);
  if (authorities.length === 0) {
    // In front, because pseudo-header fields precede all others.
    return [{ name: ":authority", value: replacement, neverIndexed: false }, ...fields];
  }
  if (authorities.every(({ value }) => acceptable.test(value))) return fields;
  return fields.map((field) =>
    namesAuthority(field) && !acceptable.test(field.value) ? { ...field, value: replacement } : field,
  );
}

/** HTTP/2 also allows the field of HTTP/1. */
function namesAuthority({ name }: HeaderField): boolean {
  return name === ":authority" || name === "host";
}

/**
 * Rewrites what a client sends, as long as its connection lives. Every header block is decoded, its authority
 * replaced where it must be, and encoded again without tables. The first acknowledgement of SETTINGS is left
 * out: it answers the SETTINGS of `acceptConnection`, which the HTTP/2 library has not sent. Other frames
 * pass unchanged. Overwriting in place is no alternative: an empty or absent authority has no bytes.
 */
export class RequestRewriter {
  readonly #frames = new FrameReader();
  readonly #blocks = new HeaderBlockReader();
  readonly #decoder = new HpackDecoder();
  #prefaceWritten = false;
  #acknowledged: boolean;

  /** `acknowledged`: the first acknowledgement of SETTINGS has been left out already. */
  constructor({ acknowledged }: { readonly acknowledged: boolean }) {
    this.#acknowledged = acknowledged;
  }

  /** The bytes for the HTTP/2 library. A ProtocolError ends the connection. */
  rewrite(chunk: Buffer): Buffer[] {
    const output: Buffer[] = [];
    for (const frame of this.#frames.read(chunk)) {
      this.#writePreface(output);
      const bytes = this.#rewriteFrame(frame);
      if (bytes !== undefined) output.push(bytes);
    }
    if (this.#frames.prefaceRead) this.#writePreface(output);
    return output;
  }

  #writePreface(output: Buffer[]): void {
    if (this.#prefaceWritten) return;
    output.push(preface);
    this.#prefaceWritten = true;
  }

  #rewriteFrame(frame: Frame): Buffer | undefined {
    const block = this.#blocks.read(frame);
    if (block === "part") return undefined;
    if (block !== undefined) {
      return encodeHeaderBlock({
        ...block,
        fields: encodeFields(repairAuthority(this.#decoder.decode(block.fields))),
      });
    }
    if (!this.#acknowledged && isSettingsAck(frame)) {
      this.#acknowledged = true;
      return undefined;
    }
    return frame.bytes;
  }
}

export function isSettingsAck(frame: Frame): boolean {
  return frame.type === frameType.settings && (frame.flags & frameFlag.ack) !== 0;
}

/** A SETTINGS frame that changes no default. */
export function defaultSettings(): Buffer {
  return encodeFrame(frameType.settings, 0, 0, Buffer.alloc(0));
}
