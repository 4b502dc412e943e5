/** Of the first piece of memory. */
const smallestBytes = 4096;

/**
 * Bytes that come in pieces, copied together: a kept piece would cost an object, however small it is, and the memory of
 * all that was read with it.
 */
export class KeptOutput {
  #buffer = Buffer.alloc(0);
  #length = 0;

  /** `data` is not looked at any more afterwards. */
  append(data: Buffer): void {
    const length = this.#length + data.length;
    if (length > this.#buffer.length) this.#grow(length);
    data.copy(this.#buffer, this.#length);
    this.#length = length;
  }

  /** What was appended so far. It shares the memory. */
  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  /** Twice as large each time, so that a byte is copied twice at most, on the average. */
  #grow(leastBytes: number): void {
    const grown = Buffer.allocUnsafeSlow(Math.max(leastBytes, 2 * this.#buffer.length, smallestBytes));
    this.#buffer.copy(grown, 0, 0, this.#length);
    this.#buffer = grown;
  }
}
