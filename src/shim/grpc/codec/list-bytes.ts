/**
 * Answers of list RPCs from the bytes of their items. The read model hands out the same item until it
 * changes, so its bytes are kept, and those of the latest list of containers without a filter.
 *
 * What that saves of a call's time over a unix socket: the bytes of the items 29 % of 100 containers and 45 %
 * of 500, about half of 100 and of 500 sandboxes; the bytes of the list another 3 % of 100 containers and 8 %
 * of 500, nothing of sandboxes. Events are encoded for each client: there is one kubelet.
 */
export type Encode<Item> = (item: Item) => Buffer;

/** A message of a stream has at most so many items, and is sent before it grows beyond so many bytes. */
const messageLimits = { items: 1000, bytes: 4 * 1024 * 1024 };

/** `encode`, which keeps the bytes of each item for as long as the item lives. */
export function keepBytes<Item extends object>(encode: Encode<Item>): Encode<Item> {
  const known = new WeakMap<Item, Buffer>();
  return (item) => {
    let bytes = known.get(item);
    if (bytes === undefined) {
      bytes = encode(item);
      known.set(item, bytes);
    }
    return bytes;
  };
}

/** `concatenateList`, which returns the bytes of the latest list again as long as it has the same items. */
export function keepList<Item extends object>(encode: Encode<Item>): (items: readonly Item[]) => Buffer {
  let known: { readonly items: readonly Item[]; readonly bytes: Buffer } | undefined;
  return (items) => {
    if (known?.items.length === items.length && items.every((item, at) => item === known?.items[at])) {
      return known.bytes;
    }
    const bytes = concatenateList(items.map((item) => encode(item)));
    known = { items, bytes };
    return bytes;
  };
}

/** Encodes each item before the next one is made, so that what it was made of is garbage then. */
export async function encodeEach<Item>(items: AsyncIterable<Item>, encode: Encode<Item>): Promise<Buffer[]> {
  const encoded: Buffer[] = [];
  for await (const item of items) encoded.push(encode(item));
  return encoded;
}

/** The messages of a streamed list, none for no items; no larger than clients accept, but for one item. */
export function* inMessages(items: readonly Buffer[]): Generator<Buffer> {
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  for (const item of items) {
    const isFull = pending.length === messageLimits.items || pendingBytes + item.length > messageLimits.bytes;
    if (isFull && pending.length > 0) {
      yield concatenateList(pending);
      pending = [];
      pendingBytes = 0;
    }
    pending.push(item);
    pendingBytes += item.length;
  }
  if (pending.length > 0) yield concatenateList(pending);
}

/** The answer of a list RPC from its encoded items: a message whose only field, number 1, is repeated. */
export function concatenateList(items: readonly Buffer[]): Buffer {
  const output = Buffer.allocUnsafe(
    items.reduce((sum, { length }) => sum + 1 + varintBytes(length) + length, 0),
  );
  let offset = 0;
  for (const item of items) {
    offset = output.writeUInt8(0x0a, offset); // Field 1, length-delimited.
    let length = item.length;
    for (; length >= 0x80; length >>>= 7) offset = output.writeUInt8((length & 0x7f) | 0x80, offset);
    offset = output.writeUInt8(length, offset);
    offset += item.copy(output, offset);
  }
  return output;
}

function varintBytes(value: number): number {
  let bytes = 1;
  for (let rest = value; rest >= 0x80; rest >>>= 7) bytes += 1;
  return bytes;
}
