/** HTTP/2 written by hand: frames and HPACK as old gRPC libraries and hostile clients send them. */
import { huffmanCodeBits } from "../../../src/lib/http2/hpack-tables.js";

export const clientPreface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

export const types = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
};
export const flags = { ack: 1, endStream: 1, endHeaders: 4, padded: 8, priority: 32 };

export function frame(
  type: number,
  flagBits: number,
  streamId: number,
  payload: Buffer = Buffer.alloc(0),
): Buffer {
  const header = Buffer.alloc(9);
  header.writeUIntBE(payload.length, 0, 3);
  header[3] = type;
  header[4] = flagBits;
  header.writeUInt32BE(streamId, 5);
  return Buffer.concat([header, payload]);
}

export const settings = frame(types.settings, 0, 0);
export const settingsAck = frame(types.settings, flags.ack, 0);

/** An HPACK integer: `pattern` holds the bits above the prefix. */
export function integer(value: number, prefixBits: number, pattern: number): Buffer {
  const limit = 2 ** prefixBits - 1;
  if (value < limit) return Buffer.of(pattern | value);
  const bytes = [pattern | limit];
  let rest = value - limit;
  while (rest >= 128) {
    bytes.push((rest & 127) | 128);
    rest >>= 7;
  }
  return Buffer.from([...bytes, rest]);
}

export type Coding = "raw" | "huffman";

export function string(text: string, coding: Coding = "raw"): Buffer {
  const bytes = Buffer.from(text, "latin1");
  if (coding === "raw") return Buffer.concat([integer(bytes.length, 7, 0), bytes]);
  let bits = "";
  for (const byte of bytes) bits += huffmanCode(byte);
  bits = bits.padEnd(Math.ceil(bits.length / 8) * 8, "1");
  const coded = Buffer.from((bits.match(/.{8}/g) ?? []).map((octet) => parseInt(octet, 2)));
  return Buffer.concat([integer(coded.length, 7, 0x80), coded]);
}

/** Codes of equal length count upwards from the code after the last shorter one, shifted left. */
function huffmanCode(symbol: number): string {
  const bits = huffmanCodeBits[symbol] ?? 0;
  const shorter = huffmanCodeBits.filter((length) => length < bits);
  const before = huffmanCodeBits.slice(0, symbol).filter((length) => length === bits).length;
  // Kraft sums: every shorter code occupies 2^(bits - length) codes of this length.
  const code = shorter.reduce((sum, length) => sum + 2 ** (bits - length), before);
  return code.toString(2).padStart(bits, "0");
}

export type Indexing = "incremental" | "without" | "never";

const literalPatterns = { incremental: [6, 0x40], without: [4, 0x00], never: [4, 0x10] } as const;

/** A literal field whose name is an index of the tables or is spelled out. */
export function literal(
  name: number | string,
  value: string,
  indexing: Indexing = "without",
  coding?: Coding,
): Buffer {
  const [prefixBits, pattern] = literalPatterns[indexing];
  if (typeof name === "number")
    return Buffer.concat([integer(name, prefixBits, pattern), string(value, coding)]);
  return Buffer.concat([Buffer.of(pattern), string(name, coding), string(value, coding)]);
}

export function indexed(index: number): Buffer {
  return integer(index, 7, 0x80);
}

/** The fields of a gRPC request, `:authority` (in any form, or nothing) behind the other pseudo-header fields. */
export function requestFields(rpc: string, authority: Buffer, more: readonly Buffer[] = []): Buffer {
  return Buffer.concat([
    indexed(3), // :method POST
    indexed(6), // :scheme http
    literal(4, `/runtime.v1alpha2.RuntimeService/${rpc}`),
    authority,
    literal(31, "application/grpc"),
    literal("te", "trailers"),
    ...more,
  ]);
}

/** A DATA frame with a gRPC message that ends the request. */
export function message(streamId: number, bytes: Buffer = Buffer.alloc(0)): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(bytes.length, 1);
  return frame(types.data, flags.endStream, streamId, Buffer.concat([prefix, bytes]));
}

export function headers(streamId: number, fields: Buffer): Buffer {
  return frame(types.headers, flags.endHeaders, streamId, fields);
}

/** The fields of a request as current clients send it. */
export function versionFields(...more: readonly Buffer[]): Buffer {
  return requestFields("Version", literal(1, "localhost"), more);
}

/** The head of a request as current clients send it; its message is to follow. */
export function versionRequest(streamId: number, ...more: readonly Buffer[]): Buffer {
  return headers(streamId, versionFields(...more));
}

/** A RST_STREAM frame that cancels a request. */
export function cancel(streamId: number): Buffer {
  return frame(types.reset, 0, streamId, Buffer.of(0, 0, 0, 8));
}
