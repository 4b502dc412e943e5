/** The messages of one direction of a gRPC call, cut out of the payloads of its DATA frames. */
import { ProtocolError } from "../../lib/http2/frames.js";

export interface ObservedMessage {
  readonly bytes: Buffer;
  /** By an algorithm that the call's headers name; `bytes` cannot be decoded as they are. */
  readonly compressed: boolean;
}

/** Bytes that may be held at a time, for all connections together. */
export class Budget {
  #taken = 0;

  constructor(private readonly limitBytes: number) {}

  get takenBytes(): number {
    return this.#taken;
  }

  /** False when it is used up; then nothing is taken. */
  take(bytes: number): boolean {
    if (this.#taken + bytes > this.limitBytes) return false;
    this.#taken += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#taken -= bytes;
  }
}

/** Flag and length (gRPC over HTTP/2, "Length-Prefixed-Message"). */
const prefixBytes = 5;
/** Servers and clients of the CRI allow 16 MiB. */
const largestMessageBytes = 32 * 1024 * 1024;
/** Limit for all messages of a call together, as soon as there are two: a stream may go on for weeks. */
const largestStreamBytes = 4 * 1024 * 1024;
/** What a message takes in memory, beside its bytes. */
const overheadBytes = 200;
const firstBufferBytes = 4096;

/** Holds what the budget allows. The buffer grows with the bytes that come, not with what a length says. */
export class MessageReader {
  readonly messages: ObservedMessage[] = [];
  readonly #prefix = Buffer.allocUnsafe(prefixBytes);
  #prefixFilled = 0;
  #body = Buffer.alloc(0);
  #bodyFilled = 0;
  #bodyLength = 0;
  #taken = 0;
  #isTruncated = false;

  constructor(private readonly budget: Budget) {}

  /** Whether messages are missing, because there were too many or they were too large. */
  get isTruncated(): boolean {
    return this.#isTruncated;
  }

  read(payload: Buffer): void {
    let offset = 0;
    while (offset < payload.length && !this.#isTruncated) {
      if (this.#prefixFilled < prefixBytes) {
        const copied = payload.copy(this.#prefix, this.#prefixFilled, offset);
        this.#prefixFilled += copied;
        offset += copied;
        if (this.#prefixFilled === prefixBytes) this.#startBody();
      } else {
        offset += this.#readBody(payload.subarray(offset));
      }
    }
  }

  /** To be called once, when the messages are not used any more. */
  release(): void {
    this.budget.give(this.#taken);
    this.#taken = 0;
    this.#isTruncated = true;
  }

  #startBody(): void {
    const flag = this.#prefix.readUInt8(0);
    if (flag > 1) throw new ProtocolError(`a message with flag ${flag}`);
    this.#bodyLength = this.#prefix.readUInt32BE(1);
    this.#bodyFilled = 0;
    if (this.#bodyLength > largestMessageBytes || !this.#take(overheadBytes)) {
      this.#isTruncated = true;
      return;
    }
    this.#body = Buffer.alloc(0);
    if (this.#bodyLength === 0) this.#endBody();
  }

  #readBody(payload: Buffer): number {
    const wanted = Math.min(payload.length, this.#bodyLength - this.#bodyFilled);
    if (!this.#makeRoom(this.#bodyFilled + wanted)) {
      this.#isTruncated = true;
      return payload.length;
    }
    payload.copy(this.#body, this.#bodyFilled, 0, wanted);
    this.#bodyFilled += wanted;
    if (this.#bodyFilled === this.#bodyLength) this.#endBody();
    return wanted;
  }

  #endBody(): void {
    this.messages.push({ bytes: this.#body, compressed: this.#prefix.readUInt8(0) === 1 });
    this.#prefixFilled = 0;
  }

  #makeRoom(bytes: number): boolean {
    if (bytes <= this.#body.length) return true;
    const size = Math.min(this.#bodyLength, Math.max(bytes, firstBufferBytes, this.#body.length * 2));
    if (!this.#take(size - this.#body.length)) return false;
    const grown = Buffer.allocUnsafeSlow(size);
    this.#body.copy(grown, 0, 0, this.#bodyFilled);
    this.#body = grown;
    return true;
  }

  #take(bytes: number): boolean {
    if (this.messages.length > 0 && this.#taken + bytes > largestStreamBytes) return false;
    if (!this.budget.take(bytes)) return false;
    this.#taken += bytes;
    return true;
  }
}
