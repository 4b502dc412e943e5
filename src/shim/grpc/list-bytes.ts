import type { Call } from "../base/call.js";
import { concatenateList } from "./proto.js";

/**
 * Encodes the answers of a list RPC item by item and keeps the bytes of each item for as long as the item lives. The
 * read model hands out the same object until something changed, so a relist copies bytes and encodes nothing.
 */
export function withItemBytes<Request, Item extends object, Response>(
  handler: (request: Request, call: Call) => Promise<Response>,
  itemsOf: (response: Response) => readonly Item[],
  encode: (item: Item) => Buffer,
): (request: Request, call: Call) => Promise<Buffer> {
  const known = new WeakMap<Item, Buffer>();
  return async (request, call) => {
    const items = itemsOf(await handler(request, call));
    return concatenateList(
      items.map((item) => {
        let bytes = known.get(item);
        if (bytes === undefined) {
          bytes = encode(item);
          known.set(item, bytes);
        }
        return bytes;
      }),
    );
  };
}
