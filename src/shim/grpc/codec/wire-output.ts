/** Bytes of messages in the wire format of Protocol Buffers, written from the front. */

/** What is kept between messages; most are smaller by far. */
const keptBytes = 256 * 1024;

/** From here on the runtime writes a string faster than a loop does. */
const shortText = 40;

/** One store that grows, for one message after the other; room is checked once for each method. */
export class WireOutput {
  #bytes = Buffer.allocUnsafeSlow(16 * 1024);
  #at = 0;

  reset(): void {
    this.#at = 0;
  }

  /** A copy of what was written since `reset`. */
  take(): Buffer {
    const taken = Buffer.allocUnsafe(this.#at);
    this.#bytes.copy(taken, 0, 0, this.#at);
    if (this.#bytes.length > keptBytes) this.#bytes = Buffer.allocUnsafeSlow(keptBytes);
    this.#at = 0;
    return taken;
  }

  /** Begins what has its length before it; for `close`. */
  open(): number {
    this.#reserve(1);
    this.#at += 1;
    return this.#at;
  }

  /** The length of what was written since `open`, whose result is `start`; one byte is left for it. */
  close(start: number): void {
    const length = this.#at - start;
    if (length < 0x80) {
      this.#bytes[start - 1] = length;
      return;
    }
    const more = varintSize(length) - 1;
    this.#reserve(more);
    this.#bytes.copyWithin(start + more, start, this.#at);
    this.#at = start - 1;
    this.varint(length);
    this.#at += length;
  }

  /** A whole number from 0 to 2^53 - 1. */
  varint(value: number): void {
    if (value < 0x80) {
      this.#reserve(1);
      this.#bytes[this.#at++] = value;
    } else {
      this.varint64(Math.floor(value / 2 ** 32), value >>> 0);
    }
  }

  /** The upper and the lower half of 64 bits, both without sign. */
  varint64(upper: number, lower: number): void {
    this.#reserve(10);
    const bytes = this.#bytes;
    let at = this.#at;
    let high = upper;
    let low = lower;
    for (; high > 0; high >>>= 7) {
      bytes[at++] = (low & 0x7f) | 0x80;
      low = ((low >>> 7) | (high << 25)) >>> 0;
    }
    for (; low >= 0x80; low >>>= 7) bytes[at++] = (low & 0x7f) | 0x80;
    bytes[at++] = low;
    this.#at = at;
  }

  double(value: number): void {
    this.#reserve(8);
    this.#at = this.#bytes.writeDoubleLE(value, this.#at);
  }

  /** As they are. */
  copy(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#bytes.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  /** With its length before it. Half of a surrogate pair becomes U+FFFD. */
  text(text: string): void {
    if (text.length < shortText) {
      this.#shortText(text);
      return;
    }
    const length = Buffer.byteLength(text);
    this.varint(length);
    this.#reserve(length);
    this.#bytes.write(text, this.#at, length, "utf8");
    this.#at += length;
  }

  /** A text of three bytes for each unit still has a length of one byte. */
  #shortText(text: string): void {
    this.#reserve(1 + 3 * text.length);
    const bytes = this.#bytes;
    const start = this.#at + 1;
    let at = start;
    for (let index = 0; index < text.length; index += 1) {
      const unit = text.charCodeAt(index);
      if (unit < 0x80) {
        bytes[at++] = unit;
      } else if (unit < 0x800) {
        bytes[at++] = 0xc0 | (unit >> 6);
        bytes[at++] = 0x80 | (unit & 0x3f);
      } else {
        const whole = text.codePointAt(index) ?? unit;
        const point = whole >= 0xd800 && whole <= 0xdfff ? 0xfffd : whole;
        if (point > 0xffff) {
          index += 1;
          bytes[at++] = 0xf0 | (point >> 18);
          bytes[at++] = 0x80 | ((point >> 12) & 0x3f);
        } else {
          bytes[at++] = 0xe0 | (point >> 12);
        }
        bytes[at++] = 0x80 | ((point >> 6) & 0x3f);
        bytes[at++] = 0x80 | (point & 0x3f);
      }
    }
    bytes[start - 1] = at - start;
    this.#at = at;
  }

  #reserve(count: number): void {
    if (this.#at + count <= this.#bytes.length) return;
    const grown = Buffer.allocUnsafeSlow(Math.max(2 * this.#bytes.length, this.#at + count));
    this.#bytes.copy(grown, 0, 0, this.#at);
    this.#bytes = grown;
  }
}

function varintSize(value: number): number {
  let size = 1;
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) size += 1;
  return size;
}
