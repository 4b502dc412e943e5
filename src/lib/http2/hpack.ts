/** Header compression of HTTP/2 (RFC 7541): a full decoder, and an encoder that uses no table. */
import { ProtocolError } from "./frames.js";
import { huffmanCodeBits, staticTable } from "./hpack-tables.js";

/** Names and values are octets: strings of the characters 0 to 255 (latin1) hold them without loss. */
export interface HeaderField {
  readonly name: string;
  readonly value: string;
  /** The sender asks every hop not to put this field into a table (RFC 7541 §7.1.3). */
  readonly neverIndexed: boolean;
}

/** The default of SETTINGS_HEADER_TABLE_SIZE, which this server never raises. */
const defaultTableBytes = 4096;
/** A byte can be the index of a field of 4 KiB, so the decoded list needs a limit of its own. */
const listLimitBytes = 256 * 1024;
/** Added to name and value in the size of a field (RFC 7541 §4.1). */
const fieldOverheadBytes = 32;

/** Decodes the header blocks of a connection, in order. Not to be used after a ProtocolError. */
export class HpackDecoder {
  /** Newest first. */
  #table: HeaderField[] = [];
  #tableBytes = 0;
  #tableLimitBytes = defaultTableBytes;

  /** `largestTableBytes`: a table that grows above it is a ProtocolError. */
  constructor(private readonly largestTableBytes = defaultTableBytes) {}

  decode(block: Buffer): HeaderField[] {
    const reader = new HpackReader(block);
    const fields: HeaderField[] = [];
    let listBytes = 0;
    while (!reader.atEnd) {
      const field = this.#decodeField(reader, fields.length === 0);
      if (field === undefined) continue;
      fields.push(field);
      listBytes += sizeOf(field);
      if (listBytes > listLimitBytes) throw new ProtocolError("the header list is too large");
    }
    return fields;
  }

  #decodeField(reader: HpackReader, first: boolean): HeaderField | undefined {
    const byte = reader.peek();
    if (byte >= 0x80) {
      const { name, value } = this.#lookUp(reader.readInteger(7));
      return { name, value, neverIndexed: false };
    }
    if (byte >= 0x40) {
      const field = { ...this.#readLiteral(reader, 6), neverIndexed: false };
      this.#insert(field);
      return field;
    }
    if (byte >= 0x20) {
      const limit = reader.readInteger(5);
      if (!first || limit > this.largestTableBytes)
        throw new ProtocolError("a misplaced change of the header table");
      this.#tableLimitBytes = limit;
      this.#evict();
      return undefined;
    }
    return { ...this.#readLiteral(reader, 4), neverIndexed: byte >= 0x10 };
  }

  #readLiteral(reader: HpackReader, prefixBits: number): { name: string; value: string } {
    const index = reader.readInteger(prefixBits);
    const name = index === 0 ? reader.readString() : this.#lookUp(index).name;
    return { name, value: reader.readString() };
  }

  #lookUp(index: number): { readonly name: string; readonly value: string } {
    const fixed = staticTable[index - 1];
    if (fixed !== undefined) return { name: fixed[0], value: fixed[1] };
    const field = this.#table[index - 1 - staticTable.length];
    if (field === undefined) throw new ProtocolError(`no header field ${index}`);
    return field;
  }

  #insert(field: HeaderField): void {
    this.#table.unshift(field);
    this.#tableBytes += sizeOf(field);
    this.#evict();
  }

  #evict(): void {
    while (this.#tableBytes > this.#tableLimitBytes) {
      const oldest = this.#table.pop();
      if (oldest === undefined) return;
      this.#tableBytes -= sizeOf(oldest);
    }
  }
}

/** `fields` as literals outside of every table: any decoder reads them, whatever its table holds. */
export function encodeFields(fields: readonly HeaderField[]): Buffer {
  return Buffer.concat(
    fields.flatMap(({ name, value, neverIndexed }) => [
      Buffer.of(neverIndexed ? 0x10 : 0x00),
      ...encodeString(name),
      ...encodeString(value),
    ]),
  );
}

function encodeString(text: string): [Buffer, Buffer] {
  const bytes = Buffer.from(text, "latin1");
  return [encodeInteger(bytes.length), bytes];
}

/** With a prefix of 7 bits whose eighth is 0: the length of a string without Huffman code. */
function encodeInteger(value: number): Buffer {
  if (value < 127) return Buffer.of(value);
  const bytes = [127];
  let rest = value - 127;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push(128 + (rest % 128));
  return Buffer.from([...bytes, rest]);
}

function sizeOf({ name, value }: { readonly name: string; readonly value: string }): number {
  return name.length + value.length + fieldOverheadBytes;
}

class HpackReader {
  #offset = 0;

  constructor(private readonly bytes: Buffer) {}

  get atEnd(): boolean {
    return this.#offset >= this.bytes.length;
  }

  peek(): number {
    const byte = this.bytes[this.#offset];
    if (byte === undefined) throw new ProtocolError("a header block ends within a field");
    return byte;
  }

  readInteger(prefixBits: number): number {
    const mask = (1 << prefixBits) - 1;
    let value = this.#next() & mask;
    if (value < mask) return value;
    for (let shift = 0; ; shift += 7) {
      // 28 bits are far above every limit here, and below the bits where shifts lose their sign.
      if (shift > 21) throw new ProtocolError("a header block contains a number that is too large");
      const byte = this.#next();
      value += (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }

  readString(): string {
    const huffman = this.peek() >= 0x80;
    const length = this.readInteger(7);
    const end = this.#offset + length;
    if (end > this.bytes.length) throw new ProtocolError("a header block ends within a string");
    const bytes = this.bytes.subarray(this.#offset, end);
    this.#offset = end;
    return (huffman ? huffmanDecode(bytes) : bytes).toString("latin1");
  }

  #next(): number {
    const byte = this.peek();
    this.#offset += 1;
    return byte;
  }
}

const endOfString = 256; // The Huffman code of strings: §5.2.
const longestCodeBits = 30;

/** For each code length, the first code and the symbols in the order of their codes. */
const codesByLength: readonly { readonly first: number; readonly symbols: readonly number[] }[] =
  canonicalCodes();

function canonicalCodes(): { first: number; symbols: number[] }[] {
  const byLength: { first: number; symbols: number[] }[] = [];
  let next = 0;
  for (let bits = 0; bits <= longestCodeBits; bits += 1) {
    next *= 2;
    const symbols = huffmanCodeBits.flatMap((length, symbol) => (length === bits ? [symbol] : []));
    byLength.push({ first: next, symbols });
    next += symbols.length;
  }
  return byLength;
}

/** The octets behind `bytes`. A ProtocolError when the code or the padding is broken. */
export function huffmanDecode(bytes: Buffer): Buffer {
  // The shortest code has 5 bits.
  const output = Buffer.allocUnsafe(Math.ceil((bytes.length * 8) / 5));
  let outputBytes = 0;
  let code = 0;
  let bits = 0;
  for (const byte of bytes) {
    for (let mask = 0x80; mask > 0; mask >>= 1) {
      code = code * 2 + ((byte & mask) === 0 ? 0 : 1);
      bits += 1;
      const candidates = codesByLength[bits];
      const symbol = candidates?.symbols[code - candidates.first];
      if (symbol === undefined) continue;
      if (symbol === endOfString) throw new ProtocolError("a Huffman code contains its end mark");
      outputBytes = output.writeUInt8(symbol, outputBytes);
      code = 0;
      bits = 0;
    }
  }
  // Fewer than 8 bits of padding, all ones.
  if (bits > 7 || code !== 2 ** bits - 1) throw new ProtocolError("a Huffman code ends in the middle");
  return output.subarray(0, outputBytes);
}
