/** What a client may send that costs it nothing and the HTTP/2 library an answer, or a stream that is at once forgotten. */
import { frameFlag, frameHeaderBytes, frameType, preface, ProtocolError } from "./frames.js";

/**
 * The library gives a connection up at 1000 answers that it could not send, with an assertion that ends the process (Node.js
 * 20.20). No client of gRPC has more than one PING and one SETTINGS on its way.
 */
const unansweredLimit = 250;
/** Streams that are reset, and DATA frames without data, that a client may have sent at once. */
const wasteBurst = 1_000;
/** And per second from then on. */
const wastePerSecond = 200;

/** Counts, and copies nothing: the frames of a connection are looked at where they are. */
export class FloodGuard {
  /** Of the preface or of a frame's payload, what has not come yet. */
  #skip: number;
  /** A frame's header that came in pieces. */
  readonly #header = Buffer.alloc(frameHeaderBytes);
  #headerBytes = 0;
  #unanswered = 0;
  #waste = 0;
  #wasteSinceMs = 0;

  /** `now`: milliseconds of a clock that only goes forward. */
  constructor(private readonly now: () => number = () => performance.now()) {
    this.#skip = preface.length;
  }

  /** Looks at what a client has sent, preface included. Throws a ProtocolError when it is too much. */
  check(chunk: Buffer): void {
    for (let offset = 0; offset < chunk.length;) {
      if (this.#skip > 0) {
        const skipped = Math.min(this.#skip, chunk.length - offset);
        this.#skip -= skipped;
        offset += skipped;
        continue;
      }
      const isWhole = this.#headerBytes === 0 && chunk.length - offset >= frameHeaderBytes;
      if (isWhole) {
        this.#count(chunk, offset);
        offset += frameHeaderBytes;
        continue;
      }
      const copied = chunk.copy(this.#header, this.#headerBytes, offset);
      this.#headerBytes += copied;
      offset += copied;
      if (this.#headerBytes < frameHeaderBytes) return;
      this.#headerBytes = 0;
      this.#count(this.#header, 0);
    }
  }

  /** What the library wrote has left: its answers to all that was looked at before are among it. */
  answered(): void {
    this.#unanswered = 0;
  }

  #count(bytes: Buffer, offset: number): void {
    const length = bytes.readUIntBE(offset, 3);
    const type = bytes.readUInt8(offset + 3);
    const flags = bytes.readUInt8(offset + 4);
    this.#skip = length;
    if (type === frameType.settings || type === frameType.ping) {
      // An acknowledgement is not answered.
      if ((flags & frameFlag.ack) !== 0) return;
      this.#unanswered += 1;
      if (this.#unanswered > unansweredLimit) throw new ProtocolError("a flood of SETTINGS or PINGs");
      return;
    }
    const isEmptyData = type === frameType.data && length === 0 && (flags & frameFlag.endStream) === 0;
    if (type === frameType.reset || isEmptyData) this.#countWaste();
  }

  #countWaste(): void {
    const now = this.now();
    const forgiven = ((now - this.#wasteSinceMs) / 1000) * wastePerSecond;
    this.#waste = Math.max(0, this.#waste - forgiven) + 1;
    this.#wasteSinceMs = now;
    if (this.#waste > wasteBurst) throw new ProtocolError("a flood of resets or of empty DATA");
  }
}
