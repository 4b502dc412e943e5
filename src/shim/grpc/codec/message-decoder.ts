/**
 * Messages from their bytes, in the shapes of domain/cri.ts. protobufjs takes a field of a wrong wire type
 * for what it expects, and does not tell which it was.
 */
import { isUtf8 } from "node:buffer";
import { ShimError } from "../../../lib/errors.js";
import type { FieldDescriptor, MessageDescriptor } from "./descriptors.js";

/** Called for each field that the message `message` does not have: of a later version of the protocol. */
type OnUnknown = (message: string, number: number) => void;

type Message = Record<string, unknown>;
type Read = (reader: Reader, onUnknown: OnUnknown, path: string) => unknown;

const varint = 0;
const fixed64 = 1;
const lengthDelimited = 2;
const fixed32 = 5;

interface Scalar {
  readonly wire: number;
  readonly initial: unknown;
  readonly read: Read;
}

/** The types that the CRI has. 64-bit integers are decimal strings, enums numbers. */
const scalars: Readonly<Record<string, Scalar>> = {
  bool: { wire: varint, initial: false, read: (reader) => reader.varint() !== 0n },
  int32: { wire: varint, initial: 0, read: int32 },
  uint32: { wire: varint, initial: 0, read: (reader) => Number(BigInt.asUintN(32, reader.varint())) },
  enum: { wire: varint, initial: 0, read: int32 },
  double: { wire: fixed64, initial: 0, read: (reader) => reader.double() },
  int64: { wire: varint, initial: "0", read: (reader) => `${BigInt.asIntN(64, reader.varint())}` },
  uint64: { wire: varint, initial: "0", read: (reader) => `${BigInt.asUintN(64, reader.varint())}` },
  bytes: { wire: lengthDelimited, initial: Buffer.alloc(0), read: (reader) => Buffer.from(reader.bytes()) },
  string: {
    wire: lengthDelimited,
    initial: "",
    read: (reader, _onUnknown, path) => {
      const bytes = reader.bytes();
      if (!isUtf8(bytes)) throw malformed(path, "is not valid UTF-8");
      return bytes.toString();
    },
  },
};

function int32(reader: Reader): number {
  return Number(BigInt.asIntN(32, reader.varint()));
}

/** What is known of a field without its bytes. */
interface Field {
  readonly name: string;
  readonly kind: FieldDescriptor["kind"];
  readonly wire: number;
  readonly initial: unknown;
  readonly read: Read;
}

/** By descriptor. A type is compiled when its first message comes, because types may contain each other. */
const types = new WeakMap<MessageDescriptor, ReadonlyMap<number, Field>>();

/** Throws `invalid`, with the path of the field: `config.mounts[2].host_path`; `config.labels` for a map. */
export function decodeMessage(bytes: Buffer, descriptor: MessageDescriptor, onUnknown: OnUnknown): object {
  return decode(new Reader(bytes, ""), descriptor, onUnknown, "");
}

function decode(reader: Reader, descriptor: MessageDescriptor, onUnknown: OnUnknown, path: string): Message {
  const fields = fieldsOf(descriptor);
  const message: Message = {};
  for (const { name, kind, initial } of fields.values()) {
    message[name] = kind === "list" ? [] : kind === "map" ? {} : initial;
  }
  while (!reader.isAtEnd) {
    const { number, wire } = reader.tag();
    const field = fields.get(number);
    if (field === undefined) {
      reader.skip(wire);
      onUnknown(descriptor.name, number);
      continue;
    }
    const value = message[field.name];
    const list = Array.isArray(value) ? (value as unknown[]) : undefined;
    const place = list === undefined ? join(path, field.name) : `${join(path, field.name)}[${list.length}]`;
    if (wire === lengthDelimited && field.wire === varint && list !== undefined) {
      // Numbers of a list may come packed.
      const packed = new Reader(reader.bytes(), place);
      while (!packed.isAtEnd) list.push(field.read(packed, onUnknown, place));
      continue;
    }
    if (wire !== field.wire) throw malformed(place, `has wire type ${wire} in place of ${field.wire}`);
    const read = field.read(reader, onUnknown, place);
    if (list !== undefined) list.push(read);
    else if (field.kind === "map") addEntry(value as Message, read as Message);
    else message[field.name] = read;
  }
  return message;
}

function fieldsOf(descriptor: MessageDescriptor): ReadonlyMap<number, Field> {
  const known = types.get(descriptor);
  if (known !== undefined) return known;
  const fields = new Map(
    descriptor.fields.map(({ name, number, kind, type, message }): [number, Field] => {
      if (message !== undefined) {
        const read = kind === "map" ? entryReader(message) : messageReader(message);
        return [number, { name, kind, wire: lengthDelimited, initial: null, read }];
      }
      const scalar = scalars[type];
      if (scalar === undefined) throw new ShimError("internal", `the CRI has a field of type ${type}`);
      return [number, { name, kind, ...scalar }];
    }),
  );
  types.set(descriptor, fields);
  return fields;
}

function messageReader(descriptor: MessageDescriptor): Read {
  return (reader, onUnknown, path) => decode(new Reader(reader.bytes(), path), descriptor, onUnknown, path);
}

/** Keys may be long and are the client's own: an error names the map and not the entry. */
function entryReader(descriptor: MessageDescriptor): Read {
  return (reader, onUnknown, path) => {
    const bytes = reader.bytes();
    try {
      return decode(new Reader(bytes, ""), descriptor, onUnknown, "");
    } catch (error) {
      const { message } = ShimError.from(error);
      throw malformed(path, message.slice(message.indexOf(": ") + 2));
    }
  };
}

/** An assignment would not add the key "__proto__". */
function addEntry(map: Message, { key, value }: Message): void {
  Object.defineProperty(map, String(key), { value, enumerable: true, configurable: true, writable: true });
}

class Reader {
  #at = 0;

  /** `path`: of the message that the bytes are. */
  constructor(
    private readonly buffer: Buffer,
    private readonly path: string,
  ) {}

  get isAtEnd(): boolean {
    return this.#at === this.buffer.length;
  }

  tag(): { readonly number: number; readonly wire: number } {
    const tag = Number(this.varint());
    const number = Math.floor(tag / 8);
    if (number === 0) throw malformed(this.path, "has a field with the number 0");
    return { number, wire: tag % 8 };
  }

  varint(): bigint {
    let value = 0n;
    let low = 0;
    for (let count = 0; count < 10; count += 1) {
      const byte = this.buffer[this.#at];
      if (byte === undefined) break;
      this.#at += 1;
      // Up to 28 bits, which nearly all values have, need no big integers.
      if (count < 4) low |= (byte & 0x7f) << (7 * count);
      else value |= BigInt(byte & 0x7f) << BigInt(7 * count);
      if (byte < 0x80) return count < 4 ? BigInt(low) : value | BigInt(low);
    }
    throw malformed(this.path, "ends within a number");
  }

  double(): number {
    return this.#take(8).readDoubleLE();
  }

  /** A length-delimited value. */
  bytes(): Buffer {
    return this.#take(Number(this.varint()));
  }

  skip(wire: number): void {
    if (wire === varint) this.varint();
    else if (wire === fixed64) this.#take(8);
    else if (wire === lengthDelimited) this.#take(Number(this.varint()));
    else if (wire === fixed32) this.#take(4);
    else throw malformed(this.path, `has a field of wire type ${wire}`);
  }

  #take(length: number): Buffer {
    const end = this.#at + length;
    if (end > this.buffer.length) throw malformed(this.path, "ends within a field");
    const taken = this.buffer.subarray(this.#at, end);
    this.#at = end;
    return taken;
  }
}

function join(path: string, name: string): string {
  return path === "" ? name : `${path}.${name}`;
}

function malformed(path: string, reason: string): ShimError {
  return new ShimError("invalid", `${path === "" ? "the message" : path}: ${reason}`, { field: path });
}
