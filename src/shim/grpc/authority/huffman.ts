/** The Huffman code of HPACK (RFC 7541 §5.2). */
import { ProtocolError } from "./frames.js";
import { huffmanCodeBits } from "./hpack-tables.js";

const endOfString = 256;
const longestCodeBits = 30;

/** Of each code length: the first code, and the symbols in the order of their codes. */
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
