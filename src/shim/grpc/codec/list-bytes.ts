import type { Call } from "../../lib/call.js";
import { concatenateList } from "./proto.js";

type Encode<Item> = (item: Item) => Buffer;

/** A message of a stream is sent before it grows beyond this. */
const messageBytes = 4 * 1024 * 1024;

/**
 * `encode`, which keeps the bytes of each item for as long as the item lives. The read model hands out the same object
 * until something changed, so a relist copies bytes and encodes nothing.
 */
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

/**
 * `concatenateList`, which gives the bytes of the latest list again as long as it consists of the same items. For a list
 * that is asked for again and again: a kubelet's relist.
 */
function keepList<Item extends object>(encode: Encode<Item>): (items: readonly Item[]) => Buffer {
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

/**
 * Encodes the answers of a list RPC item by item, each before the next one is made: what an item was made of is garbage when the
 * next one comes, and no collector has to keep it over the call.
 */
export function withItemBytes<Request, Item extends object>(
  itemsOf: (request: Request, call: Call) => AsyncIterable<Item>,
  encode: Encode<Item>,
): (request: Request, call: Call) => Promise<Buffer> {
  return async (request, call) => {
    const encoded: Buffer[] = [];
    for await (const item of itemsOf(request, call)) encoded.push(encode(item));
    return concatenateList(encoded);
  };
}

/** The same for items that live on between calls; the whole of a list without a filter is kept, too. */
export function withKeptList<Request extends { readonly filter: unknown }, Item extends object, Response>(
  handler: (request: Request, call: Call) => Promise<Response>,
  itemsOf: (response: Response) => readonly Item[],
  encode: Encode<Item>,
): (request: Request, call: Call) => Promise<Buffer> {
  const concatenateAll = keepList(encode);
  return async (request, call) => {
    const items = itemsOf(await handler(request, call));
    return request.filter === null
      ? concatenateAll(items)
      : concatenateList(items.map((item) => encode(item)));
  };
}

/**
 * The same for the streamed form of a list RPC. However large its items are, no message nears what clients accept, but
 * for one that holds a single item.
 */
export function withStreamedItemBytes<Request, Item extends object, Response>(
  handler: (request: Request, call: Call, send: (message: Response) => Promise<void>) => Promise<void>,
  itemsOf: (response: Response) => readonly Item[],
  encode: Encode<Item>,
): (request: Request, call: Call, send: (bytes: Buffer) => Promise<void>) => Promise<void> {
  return (request, call, send) =>
    handler(request, call, async (message) => {
      let pending: Buffer[] = [];
      let pendingBytes = 0;
      for (const item of itemsOf(message)) {
        const bytes = encode(item);
        if (pending.length > 0 && pendingBytes + bytes.length > messageBytes) {
          await send(concatenateList(pending));
          pending = [];
          pendingBytes = 0;
        }
        pending.push(bytes);
        pendingBytes += bytes.length;
      }
      if (pending.length > 0) await send(concatenateList(pending));
    });
}
