/** The messages of observed calls, decoded. */
import { criMethods } from "../../client/cri-messages.js";
import type { PipedCall } from "./call-pipe.js";

export interface DecodedCall {
  readonly rpc: string;
  readonly isStream: boolean;
  /** Undefined when it is missing or cannot be decoded. */
  readonly request: object | undefined;
  readonly responses: readonly object[];
  /** A message is missing, compressed or malformed. */
  readonly isIncomplete: boolean;
}

/** Undefined for a call that is none of the CRI. */
export function decodeCall({ path, requests, responses, isTruncated }: PipedCall): DecodedCall | undefined {
  const [, version, rpc] = /^\/runtime\.(v1|v1alpha2)\.(?:Runtime|Image)Service\/(\w+)$/.exec(path) ?? [];
  if (version === undefined || rpc === undefined) return undefined;
  const method = criMethods().get(rpc);
  if (method === undefined) return undefined;
  let isIncomplete = isTruncated;
  const decode = (read: (bytes: Buffer) => object, bytes: Buffer, compressed: boolean): object[] => {
    try {
      if (!compressed) return [read(bytes)];
    } catch {
      // A message that its peer refuses, too.
    }
    isIncomplete = true;
    return [];
  };
  const [request] = requests.flatMap(({ bytes, compressed }) =>
    decode(method.requestDeserialize, bytes, compressed),
  );
  const answers = responses.flatMap(({ bytes, compressed }) =>
    decode(method.responseDeserialize, bytes, compressed),
  );
  return { rpc, isStream: method.responseStream, request, responses: answers, isIncomplete };
}
