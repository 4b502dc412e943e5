/** Where a JSON value ends in bytes that arrive in pieces, without its being parsed or held. */
const [quote, backslash, comma] = [0x22, 0x5c, 0x2c];
const [openBrace, closeBrace, openBracket, closeBracket] = [0x7b, 0x7d, 0x5b, 0x5d];

/** The white space of JSON: space, tab, line ends. */
export function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/** For one value after the other. What is no JSON ends somewhere, or never: who parses the bytes finds out. */
export class ValueEnd {
  #depth = 0;
  #isInString = false;
  /** The next byte of the string is not its end, whatever it is. */
  #isEscaped = false;

  /**
   * The index behind the last byte of the value, which begins or goes on at `from`; undefined when it goes on beyond the
   * chunk. A value must not begin with white space.
   */
  find(chunk: Buffer, from: number): number | undefined {
    // Locals, and no call for a byte: every byte of every list comes through here.
    const { length } = chunk;
    let depth = this.#depth;
    let isInString = this.#isInString;
    let end: number | undefined;
    let index = this.#isEscaped && from < length ? from + 1 : from;
    this.#isEscaped &&= from >= length;
    while (index < length) {
      const byte = chunk[index];
      index += 1;
      if (isInString) {
        if (byte === backslash) {
          this.#isEscaped = index === length;
          index += 1;
        } else if (byte === quote) {
          isInString = false;
          if (depth === 0) {
            end = index;
            break;
          }
        }
      } else if (byte === quote) {
        isInString = true;
      } else if (byte === openBrace || byte === openBracket) {
        depth += 1;
      } else if (byte === closeBrace || byte === closeBracket) {
        depth -= 1;
        if (depth <= 0) {
          // A number or a word ends before the bracket of what it is in.
          end = depth < 0 ? index - 1 : index;
          depth = 0;
          break;
        }
      } else if (depth === 0 && (byte === comma || isSpace(byte))) {
        end = index - 1;
        break;
      }
    }
    this.#depth = depth;
    this.#isInString = isInString;
    return end;
  }
}
