/** What a client may send that costs it nothing and the HTTP/2 library an answer, or a stream that is at once forgotten. */
import { frameFlag, frameHeaderBytes, frameType, preface, ProtocolError } from "../authority/frames.js";

/**
 * The library gives a connection up at 1000 answers that it could not send, with an assertion that ends the process (Node.js
 * 20.20). No client of gRPC has more than one PING and one SETTINGS on its way.
 */
const unansweredLimit = 250;
/**
 * Streams that are reset, and DATA frames without data, that a client may have sent at once, and per second from then on.
 * Both are less than the library's own limit of resets (1000, 33 per second): it would say GOAWAY and leave the connection
 * open, its calls running, until nobody answers a PING. A kubelet that stops or times out cancels some hundred calls at most.
 */
const wasteBurst = 500;
const wastePerSecond = 30;
/** Requests that reach the library together. It tells of them only afterwards, when it is too late to hold the others back. */
const requestsAtOnce = 32;

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

  /**
   * Looks at what a client has sent, preface included. Throws a ProtocolError when it is too much. Answers how many bytes
   * may be passed on together; the rest is to be shown again, once the library has told of the requests in them.
   */
  check(chunk: Buffer): number {
    let requests = 0;
    for (let offset = 0; offset < chunk.length;) {
      if (this.#skip > 0) {
        const skipped = Math.min(this.#skip, chunk.length - offset);
        this.#skip -= skipped;
        offset += skipped;
        continue;
      }
      const isWhole = this.#headerBytes === 0 && chunk.length - offset >= frameHeaderBytes;
      if (isWhole) {
        if (this.#count(chunk, offset)) requests += 1;
        offset += frameHeaderBytes;
        if (requests === requestsAtOnce) return offset;
        continue;
      }
      const copied = chunk.copy(this.#header, this.#headerBytes, offset);
      this.#headerBytes += copied;
      offset += copied;
      if (this.#headerBytes < frameHeaderBytes) break;
      this.#headerBytes = 0;
      if (this.#count(this.#header, 0)) requests += 1;
    }
    return chunk.length;
  }

  /** What the library wrote has left: its answers to all that was looked at before are among it. */
  answered(): void {
    this.#unanswered = 0;
  }

  /** Whether a request begins, or the trailers of one. */
  #count(bytes: Buffer, offset: number): boolean {
    const length = bytes.readUIntBE(offset, 3);
    const type = bytes.readUInt8(offset + 3);
    const flags = bytes.readUInt8(offset + 4);
    this.#skip = length;
    if (type === frameType.settings || type === frameType.ping) {
      // An acknowledgement is not answered.
      if ((flags & frameFlag.ack) !== 0) return false;
      this.#unanswered += 1;
      if (this.#unanswered > unansweredLimit) throw new ProtocolError("a flood of SETTINGS or PINGs");
      return false;
    }
    const isEmptyData = type === frameType.data && length === 0 && (flags & frameFlag.endStream) === 0;
    if (type === frameType.reset || isEmptyData) this.#countWaste();
    return type === frameType.headers;
  }

  #countWaste(): void {
    const now = this.now();
    const forgiven = ((now - this.#wasteSinceMs) / 1000) * wastePerSecond;
    this.#waste = Math.max(0, this.#waste - forgiven) + 1;
    this.#wasteSinceMs = now;
    if (this.#waste > wasteBurst) throw new ProtocolError("a flood of resets or of empty DATA");
  }
}
