/** The RPC table in the form of the server: requests are validated, items of lists are encoded. */
import type { Call } from "../../lib/call.js";
import type { ValidatedRpc } from "../../domain/requests.js";
import type { ItemEncoders } from "../grpc/codec/cri-api.js";
import {
  concatenateList,
  encodeEach,
  inMessages,
  keepBytes,
  keepList,
  type Encode,
} from "../grpc/codec/list-bytes.js";
import type { Rpc, Rpcs, Send } from "../grpc/handlers.js";
import { identify, identifyMade } from "./call-subject.js";
import { rpcs, validateRequest, type ListForm } from "./rpcs.js";
import type { Services } from "./services.js";

/** A row of any RPC. In the table each row has the messages of its RPC; for the server all are objects. */
interface AnyRow extends Pick<Rpc, "readOnly" | "subject"> {
  readonly handler: (request: object, services: Services, call: Call, send: Send) => unknown;
}
type AnyListRow = AnyRow & ListForm;
type ListedItems = Promise<readonly object[]> | AsyncIterable<object>;
type Encoders = Readonly<Record<keyof ItemEncoders, Encode<object>>>;

export function bindRpcs(services: Services, itemEncoders: ItemEncoders): Rpcs {
  const encoders = itemEncoders as unknown as Encoders;
  // A list and its streamed form share the bytes that are kept.
  const keeping: Encoders = {
    ...encoders,
    sandbox: keepBytes(encoders.sandbox),
    container: keepBytes(encoders.container),
    image: keepBytes(encoders.image),
  };
  return new Map(
    Object.entries(rpcs).map(([name, typed]) => {
      const row = typed as unknown as AnyRow | AnyListRow;
      const valid = (request: object): object => validateRequest(name as ValidatedRpc, request as never);
      const handle: Rpc["handle"] =
        "encoding" in row
          ? listHandler(row, valid, services, row.encoding === "each" ? encoders : keeping)
          : async (request, call, send) => {
              const validated = valid(request);
              identify(call, validated, services.state.model);
              const answer = await row.handler(validated, services, call, send);
              identifyMade(call, answer as object | undefined);
              return answer;
            };
      return [name, { readOnly: row.readOnly, subject: row.subject, handle }];
    }),
  );
}

function listHandler(
  { handler, item, encoding, stream }: AnyListRow,
  valid: (request: object) => object,
  services: Services,
  encoders: Encoders,
): Rpc["handle"] {
  const encode = encoders[item];
  const encodeWhole = encoding === "keepList" ? keepList(encode) : undefined;
  return async (given, call, send) => {
    const request = valid(given) as { readonly filter?: unknown };
    const items = handler(request, services, call, send) as ListedItems;
    let bytes: readonly Buffer[];
    if (Symbol.asyncIterator in items) {
      bytes = await encodeEach(items, encode);
    } else {
      const listed = await items;
      if (encodeWhole !== undefined && request.filter === null) return encodeWhole(listed);
      bytes = listed.map((one) => encode(one));
    }
    if (!stream) return concatenateList(bytes);
    for (const message of inMessages(bytes)) await send(message);
    return undefined;
  };
}
