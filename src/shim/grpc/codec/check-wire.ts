/**
 * Whether bytes are a message of their type. The decoder alone would take a field of another wire type for what it
 * expects and read past its end, and replaces what is not UTF-8; and it cannot say which field it was.
 */
import { isUtf8 } from "node:buffer";
import { ShimError } from "../../lib/errors.js";

/** The parts of a descriptor, as @grpc/proto-loader gives it. */
export interface MessageDescriptor {
  readonly name?: string;
  readonly field: readonly FieldDescriptor[];
  /** Entries of maps. */
  readonly nestedType: readonly (MessageDescriptor & {
    readonly name: string;
    readonly options?: { readonly mapEntry?: boolean } | null;
  })[];
}

export interface FieldDescriptor {
  readonly name: string;
  readonly number: number;
  /** `LABEL_REPEATED` for lists and maps. */
  readonly label: string;
  /** `TYPE_STRING`, `TYPE_MESSAGE` … */
  readonly type: string;
  /** Name of the message or enum, empty for scalars. */
  readonly typeName: string;
}

/** By name; undefined for what is no message. */
export type FindMessage = (typeName: string) => MessageDescriptor | undefined;

const varint = 0;
const fixed64 = 1;
const lengthDelimited = 2;
const fixed32 = 5;

const wireTypes: Readonly<Record<string, number>> = {
  ...{ TYPE_STRING: lengthDelimited, TYPE_BYTES: lengthDelimited, TYPE_MESSAGE: lengthDelimited },
  ...{ TYPE_DOUBLE: fixed64, TYPE_FIXED64: fixed64, TYPE_SFIXED64: fixed64 },
  ...{ TYPE_FLOAT: fixed32, TYPE_FIXED32: fixed32, TYPE_SFIXED32: fixed32 },
};

/**
 * What the messages of a request are, and who is told of fields that they do not have: with the name of the
 * message.
 */
interface Context {
  readonly findMessage: FindMessage;
  readonly onUnknown: (message: string, number: number) => void;
}

/** Throws `invalid`, with the path of the field: `config.mounts[2].host_path`; `config.labels` for what is in a map. */
export function checkWire(bytes: Buffer, message: MessageDescriptor, context: Context): void {
  check(bytes, message, context, "");
}

function check(bytes: Buffer, message: MessageDescriptor, context: Context, path: string): void {
  const counts = new Map<number, number>();
  const reader = new Reader(bytes, path);
  while (!reader.isAtEnd) {
    const tag = reader.varint();
    const number = Math.floor(tag / 8);
    const wire = tag % 8;
    if (number === 0) throw malformed(path, "has a field with the number 0");
    const content = reader.content(wire);
    const field = message.field.find((candidate) => candidate.number === number);
    if (field === undefined) {
      // Of a later version of the protocol.
      context.onUnknown(message.name ?? "", number);
      continue;
    }
    const index = counts.get(number) ?? 0;
    counts.set(number, index + 1);
    const nested = message.nestedType.find(({ name }) => name === field.typeName);
    const isMap = nested?.options?.mapEntry === true;
    const isList = field.label === "LABEL_REPEATED" && !isMap;
    const place = () => join(path, isList ? `${field.name}[${String(index)}]` : field.name);
    const expected = wireTypes[field.type] ?? varint;
    // Numbers of a list may come packed.
    if (wire !== expected && !(isList && wire === lengthDelimited)) {
      throw malformed(place(), `has wire type ${String(wire)} in place of ${String(expected)}`);
    }
    if (field.type === "TYPE_STRING" && !isUtf8(content)) throw malformed(place(), "is not valid UTF-8");
    const inner = field.type === "TYPE_MESSAGE" ? (nested ?? context.findMessage(field.typeName)) : undefined;
    if (inner === undefined) continue;
    if (isMap) checkEntry(content, inner, context, place());
    else check(content, inner, context, place());
  }
}

/** Keys may be long and are the caller's own: what is wrong with an entry is said of its map. */
function checkEntry(bytes: Buffer, entry: MessageDescriptor, context: Context, path: string): void {
  try {
    check(bytes, entry, context, "");
  } catch (error) {
    const { message } = ShimError.from(error);
    throw malformed(path, message.slice(message.indexOf(": ") + 2));
  }
}

class Reader {
  #at = 0;

  constructor(
    private readonly bytes: Buffer,
    private readonly path: string,
  ) {}

  get isAtEnd(): boolean {
    return this.#at === this.bytes.length;
  }

  /** As far as a number goes exactly; what follows are the upper bits of numbers that nobody reads here. */
  varint(): number {
    let value = 0;
    for (let count = 0; count < 10; count += 1) {
      const byte = this.bytes[this.#at];
      if (byte === undefined) break;
      this.#at += 1;
      value += (byte & 0x7f) * 128 ** count;
      if (byte < 0x80) return value;
    }
    throw malformed(this.path, "ends within a number");
  }

  /** The bytes of a value of this wire type; empty for numbers. */
  content(wire: number): Buffer {
    switch (wire) {
      case varint:
        this.varint();
        return this.#take(0);
      case fixed64:
        return this.#take(8);
      case lengthDelimited:
        return this.#take(this.varint());
      case fixed32:
        return this.#take(4);
      default:
        throw malformed(this.path, `has a field of wire type ${String(wire)}`);
    }
  }

  #take(length: number): Buffer {
    const end = this.#at + length;
    if (end > this.bytes.length) throw malformed(this.path, "ends within a field");
    const taken = this.bytes.subarray(this.#at, end);
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
