/** Repairs the requests of a client whose `:authority` Node would refuse. */
import { repairAuthority } from "./authority-rule.js";
import { encodeFrame, FrameReader, frameFlag, frameType, preface, type Frame } from "./frames.js";
import { encodeHeaderBlock, HeaderBlockReader } from "./header-blocks.js";
import { encodeFields, HpackDecoder } from "./hpack.js";

/**
 * Everything that the client sends, for the life of a connection, with these differences: every header block is
 * decoded, its authority repaired, and encoded anew without tables; the first acknowledgement of SETTINGS is left
 * out, because it answers the SETTINGS that the opening of the connection sent, which the HTTP/2 library knows
 * nothing of. All other frames pass byte for byte.
 *
 * Overwriting the value in place would be less work, but cannot give a value to an authority that is empty or absent.
 */
export class RequestRewriter {
  readonly #frames = new FrameReader();
  readonly #blocks = new HeaderBlockReader();
  readonly #decoder = new HpackDecoder();
  #prefaceWritten = false;
  #acknowledged: boolean;

  /** `acknowledged`: the first acknowledgement of SETTINGS has been taken out already. */
  constructor({ acknowledged }: { readonly acknowledged: boolean }) {
    this.#acknowledged = acknowledged;
  }

  /** What to pass on for `chunk`. A ProtocolError ends the connection. */
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

/** The SETTINGS of a server that leaves everything at its default. */
export function defaultSettings(): Buffer {
  return encodeFrame(frameType.settings, 0, 0, Buffer.alloc(0));
}
