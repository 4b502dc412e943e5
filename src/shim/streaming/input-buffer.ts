import type { Readable } from "node:stream";
import { chunkCostBytes } from "./chunk-cost.js";

/**
 * What a client has sent on one channel and nobody has read. It is kept here and not by the Readable, which knows
 * nothing of the cost of small messages; that one is to be made with a high-water mark of 0, and to call `read`.
 */
export class ChannelInput {
  readonly #unread: Buffer[] = [];
  #unreadBytes = 0;
  /** `read` was called, and nothing was there. */
  #wanted = false;
  #ended = false;

  constructor(private readonly limitBytes: number) {}

  /** Whether no more is to be received for now. */
  get isFull(): boolean {
    return this.#unreadBytes >= this.limitBytes;
  }

  receive(data: Buffer, reader: Readable): void {
    if (reader.destroyed || this.#ended) return;
    if (this.#wanted) {
      this.#wanted = false;
      reader.push(data);
      return;
    }
    this.#unread.push(data);
    this.#unreadBytes += chunkCostBytes(data);
  }

  /** Nothing comes any more; the reader hears of it behind the rest. */
  end(reader: Readable): void {
    if (reader.destroyed || this.#ended) return;
    this.#ended = true;
    if (this.#unread.length === 0) reader.push(null);
  }

  /** The reader's `_read`. */
  read(reader: Readable): void {
    const data = this.#unread.shift();
    if (data !== undefined) {
      this.#unreadBytes -= chunkCostBytes(data);
      reader.push(data);
    } else if (this.#ended) reader.push(null);
    else this.#wanted = true;
  }

  clear(): void {
    this.#unread.length = 0;
    this.#unreadBytes = 0;
  }
}
