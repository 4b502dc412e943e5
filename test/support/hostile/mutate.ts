/** Makes invalid requests from valid ones, with the types of their fields in proto/. */
import { messageOf, type Field, type Message, type Rpc } from "./protocol.js";
import type { Random } from "./random.js";
import { encode, parse, places, varintOf, type Part, type Wire } from "./wire.js";

const numbers = [
  ...[0n, 1n, -1n, 2n, 3n, 99n, 1000n, 65_535n, 65_536n, 1n << 20n],
  ...[(1n << 31n) - 1n, -(1n << 31n), 1n << 31n, (1n << 32n) - 1n, 1n << 53n, (1n << 63n) - 1n, -(1n << 63n)],
];

const texts: readonly Buffer[] = [
  ...["", " ", "a", "0", "-1", "a b", "a\0b", "\0", "\n", "a\nb", "_", "a_b", "..", "../../x", "a/../b"],
  ...["./", "//", "localhost/", "localhost/../x", "localhost//x", "runtime/default", "unconfined"],
  ...["10.0.0.1", "::1", "%s%n", "/x", "/x/../y", "/dev", "/dev/null", "/proc", "ä€😀", "\u202e", "{}", "["],
  ...["a=b", "a:b", "k8s_", "__proto__", "constructor", "net.ipv4.ip_forward", "kernel.shmmax"],
  ...["vendor.com/class=name", "0-1000", "1GB", "cpu.max"],
].map((text) => Buffer.from(text));

const notText: readonly Buffer[] = ["c328", "ff", "f0908080fe", "eda080", "61ff00"].map((hex) =>
  Buffer.from(hex, "hex"),
);

export interface Words {
  /** Ids and names that mean something on this node. */
  readonly names: readonly string[];
  /** Directories with files of the node. Tests may only write their own files below them. */
  readonly directory: string;
}

/** The bytes of `seed`, changed in one to four places. */
export function mutate(rpc: Rpc, seed: object, words: Words, random: Random): Buffer {
  const parts = parse(rpc, rpc.request, rpc.encode(seed));
  const count = 1 + random.below(4);
  for (let change = 0; change < count; change += 1) {
    const { message, parts: here } = random.pick(places(rpc, rpc.request, parts));
    if (message.field.length > 0) changeField(rpc, message, here, words, random);
    else here.push({ number: 1 + random.below(20), wire: 2, value: randomBytes(random) });
  }
  const bytes = encode(parts);
  return random.chance(8) ? damage(bytes, random) : bytes;
}

/** A request at random: each field with any value, or none. */
export function invent(rpc: Rpc, words: Words, random: Random): Buffer {
  return encode(inventMessage(rpc, rpc.request, words, random));
}

function inventMessage(rpc: Rpc, message: Message, words: Words, random: Random, depth = 0): Part[] {
  return message.field
    .filter(() => random.chance(depth === 0 ? 80 : 40))
    .map((field) => valueOf(rpc, message, field, words, random, depth));
}

function changeField(rpc: Rpc, message: Message, parts: Part[], words: Words, random: Random): void {
  const field = random.pick(message.field);
  const others = parts.filter(({ number }) => number !== field.number);
  const replace = (...added: readonly Part[]): void => {
    parts.splice(0, parts.length, ...others, ...added);
  };
  const value = valueOf(rpc, message, field, words, random);
  switch (random.below(12)) {
    case 0:
      replace();
      break;
    case 1:
      // The last one counts, or the list has one more; messages are merged.
      parts.push(value);
      break;
    case 2: {
      const wire = random.pick([0, 1, 2, 5, 3, 4, 7]) as Wire;
      replace({ number: field.number, wire, value: wire === 2 ? randomBytes(random) : random.pick(numbers) });
      break;
    }
    case 3:
      if (field.label === "LABEL_REPEATED" && random.chance(20)) replace(...many(field, value));
      else replace(value);
      break;
    case 4:
      if (field.type === "TYPE_STRING" && random.chance(20)) {
        replace({ ...value, value: Buffer.alloc(1024 * 1024, 0x61) });
      } else replace(value);
      break;
    default:
      replace(value);
  }
}

function valueOf(rpc: Rpc, parent: Message, field: Field, words: Words, random: Random, depth = 0): Part {
  const { number, type } = field;
  const message = messageOf(rpc, parent, field);
  if (message !== undefined) {
    const value = depth > 3 ? [] : inventMessage(rpc, message, words, random, depth + 1);
    return { number, wire: 2, value };
  }
  if (type === "TYPE_STRING" || type === "TYPE_BYTES") {
    return { number, wire: 2, value: textFor(field, words, random) };
  }
  if (field.label === "LABEL_REPEATED" && random.chance(50)) {
    return { number, wire: 2, value: Buffer.concat([varintOf(random.pick(numbers)), varintOf(1n)]) };
  }
  return { number, wire: 0, value: type === "TYPE_BOOL" ? BigInt(random.below(2)) : random.pick(numbers) };
}

function textFor({ name }: Field, { names, directory }: Words, random: Random): Buffer {
  if (random.chance(10)) return random.pick(notText);
  const text = random.chance(35) ? Buffer.from(random.pick(names)) : random.pick(texts);
  // Root writes below these: a request that is right in this must not reach files of the node.
  const isPlace = /^(log_directory|location|host_path)$/.test(name);
  if (isPlace && text.toString().startsWith("/")) return Buffer.concat([Buffer.from(directory), text]);
  if (name === "cgroup_parent" && text.length > 0)
    return Buffer.concat([Buffer.from("/dockershim-hostile/"), text]);
  return text;
}

/** Ten thousand, all different where that is what makes them many. */
function many({ number, wire }: { readonly number: number; readonly wire?: Wire }, one: Part): Part[] {
  return Array.from({ length: 10_000 }, (_, index) => ({
    number,
    wire: wire ?? one.wire,
    value: Array.isArray(one.value)
      ? [
          { number: 1, wire: 2 as const, value: Buffer.from(`key-${index}`) },
          { number: 2, wire: 2 as const, value: Buffer.from("v") },
        ]
      : one.value,
  }));
}

function randomBytes(random: Random): Buffer {
  return Buffer.from(Array.from({ length: random.below(12) }, () => random.below(256)));
}

/** No longer what any program would send. */
function damage(bytes: Buffer, random: Random): Buffer {
  if (bytes.length === 0) return randomBytes(random);
  const at = random.below(bytes.length);
  switch (random.below(3)) {
    case 0:
      return bytes.subarray(0, at);
    case 1: {
      const flipped = Buffer.from(bytes);
      flipped.writeUInt8(flipped.readUInt8(at) ^ (1 << random.below(8)), at);
      return flipped;
    }
    default:
      return Buffer.concat([bytes.subarray(0, at), randomBytes(random), bytes.subarray(at)]);
  }
}
