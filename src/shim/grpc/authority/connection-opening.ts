/** What a client says until its first request is complete, and what that tells about it. */
import { repairAuthority } from "./authority-rule.js";
import {
  encodeFrame,
  FrameReader,
  frameFlag,
  frameType,
  preface,
  ProtocolError,
  type Frame,
} from "./frames.js";
import { HeaderBlockReader } from "./header-blocks.js";
import { HpackDecoder } from "./hpack.js";
import { isSettingsAck } from "./request-rewriter.js";

export type Verdict =
  /** The first request is not complete. */
  | "undecided"
  /** The requests are fine; the acknowledgement of our SETTINGS has not come yet and would confuse the library. */
  | "acceptable but not acknowledged"
  /** The HTTP/2 library may have the connection as it is. */
  | "acceptable"
  /** The requests have to be repaired. */
  | "repair";

/** A header block of the largest size and what may come with it. */
const largestOpeningBytes = 192 * 1024;

/**
 * Reads the opening of a connection. Nothing reaches the HTTP/2 library before the verdict, so PINGs are answered
 * here: a client that is idle from the start must not take the connection for dead. Bounded in memory.
 */
export class ConnectionOpening {
  readonly #frames = new FrameReader();
  readonly #blocks = new HeaderBlockReader();
  readonly #kept: Buffer[] = [];
  #keptBytes = 0;
  #settingsRead = false;
  #acknowledged = false;
  #firstRequest: "acceptable" | "repair" | undefined;

  /** Reads on; the answers to send, if any. A ProtocolError ends the connection. */
  read(chunk: Buffer): Buffer[] {
    const answers: Buffer[] = [];
    for (const frame of this.#frames.read(chunk)) {
      const answer = this.#readFrame(frame);
      if (answer !== undefined) answers.push(answer);
    }
    return answers;
  }

  get verdict(): Verdict {
    if (this.#firstRequest === undefined) return "undecided";
    if (this.#firstRequest === "repair") return "repair";
    return this.#acknowledged ? "acceptable" : "acceptable but not acknowledged";
  }

  /** Whether the acknowledgement of our SETTINGS has come, and is left out of `bytes`. */
  get acknowledged(): boolean {
    return this.#acknowledged;
  }

  /** Whether the client has introduced itself and owes nothing: such a client may stay silent as long as it likes. */
  get atRest(): boolean {
    return this.#settingsRead && this.#frames.incomplete.length === 0 && !this.#blocks.isOpen;
  }

  /**
   * All that the HTTP/2 library has to be given in place of what was read: without answered PINGs and, once it came,
   * the acknowledgement of our SETTINGS.
   */
  get bytes(): Buffer {
    return Buffer.concat([
      ...(this.#frames.prefaceRead ? [preface] : []),
      ...this.#kept,
      this.#frames.incomplete,
    ]);
  }

  #readFrame(frame: Frame): Buffer | undefined {
    if (!this.#settingsRead && frame.type !== frameType.settings)
      throw new ProtocolError("no SETTINGS at first");
    this.#settingsRead = true;
    const block = this.#blocks.read(frame);
    if (typeof block === "object" && this.#firstRequest === undefined) {
      const fields = new HpackDecoder().decode(block.fields);
      this.#firstRequest = repairAuthority(fields) === fields ? "acceptable" : "repair";
    }
    if (block === undefined) {
      const isAck = (frame.flags & frameFlag.ack) !== 0;
      if (frame.type === frameType.ping && !isAck) {
        if (frame.payload.length !== 8) throw new ProtocolError("a PING that is not 8 bytes long");
        return encodeFrame(frameType.ping, frameFlag.ack, 0, frame.payload);
      }
      if (!this.#acknowledged && isSettingsAck(frame)) {
        this.#acknowledged = true;
        return undefined;
      }
    }
    this.#kept.push(frame.bytes);
    this.#keptBytes += frame.bytes.length;
    if (this.#keptBytes > largestOpeningBytes) throw new ProtocolError("too much before the first request");
    return undefined;
  }
}
