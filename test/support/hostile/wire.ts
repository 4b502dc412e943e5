/** Writes Protobuf's wire format without a schema, for valid and invalid messages. */
import { messageOf, type Message, type Rpc } from "./protocol.js";

export type Wire = 0 | 1 | 2 | 5;

/** One field of an encoded message. */
export interface Part {
  readonly number: number;
  readonly wire: Wire;
  /** A number, bytes, or the parts of a message. */
  value: bigint | Buffer | Part[];
}

/** A message of a request, with what describes it. */
export interface Place {
  readonly message: Message;
  readonly parts: Part[];
}

/** The parts of a message that is right. */
export function parse(rpc: Rpc, message: Message, bytes: Buffer): Part[] {
  const parts: Part[] = [];
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes.readUInt8(at);
      at += 1;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.length) {
    const tag = Number(varint());
    const number = tag >>> 3;
    if ((tag & 7) === 0) {
      parts.push({ number, wire: 0, value: varint() });
      continue;
    }
    if ((tag & 7) !== 2) throw new Error(`no request has wire type ${tag & 7}`);
    const length = Number(varint());
    const content = bytes.subarray(at, at + length);
    at += length;
    const field = message.field.find((one) => one.number === number);
    const inner = field === undefined ? undefined : messageOf(rpc, message, field);
    parts.push({ number, wire: 2, value: inner === undefined ? content : parse(rpc, inner, content) });
  }
  return parts;
}

/** Every message in `parts`, itself first. */
export function places(rpc: Rpc, message: Message, parts: Part[]): Place[] {
  const found: Place[] = [{ message, parts }];
  for (const part of parts) {
    const field = message.field.find(({ number }) => number === part.number);
    const inner = field === undefined ? undefined : messageOf(rpc, message, field);
    if (inner !== undefined && Array.isArray(part.value)) found.push(...places(rpc, inner, part.value));
  }
  return found;
}

export function encode(parts: readonly Part[]): Buffer {
  return Buffer.concat(
    parts.flatMap(({ number, wire, value }) => {
      const tag = varintOf((BigInt(number) << 3n) | BigInt(wire));
      if (typeof value === "bigint") {
        if (wire === 1 || wire === 5) {
          const fixed = Buffer.alloc(8);
          fixed.writeBigUInt64LE(BigInt.asUintN(64, value));
          return [tag, wire === 1 ? fixed : fixed.subarray(0, 4)];
        }
        return [tag, varintOf(value)];
      }
      const content = Array.isArray(value) ? encode(value) : value;
      return wire === 2 ? [tag, varintOf(BigInt(content.length)), content] : [tag, content];
    }),
  );
}

/** Negative numbers have ten bytes, as protobuf writes them. */
export function varintOf(value: bigint): Buffer {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, value);
  while (rest >= 0x80n) {
    bytes.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  return Buffer.from([...bytes, Number(rest)]);
}
