/** The requests and responses of an RPC, from and to bytes. */
import { ShimError } from "../../../lib/errors.js";
import type { RpcDescriptor } from "./descriptors.js";
import { decodeMessage } from "./message-decoder.js";
import { compileEncoder } from "./message-encoder.js";
import { UnknownFieldsOfRequest, type UnknownFields } from "./unknown-fields.js";

export interface Method {
  /** `RunPodSandbox` */
  readonly name: string;
  /** `/runtime.v1.RuntimeService/RunPodSandbox` */
  readonly path: string;
  readonly responseStream: boolean;
  /** `invalid` for bytes that are no such message, and strings that are not UTF-8. */
  readonly decodeRequest: (bytes: Buffer) => object;
  readonly encodeResponse: (message: object) => Buffer;
}

/** `unknownFields` is told of each request that has fields of a later version of the protocol. */
export function methodOf(
  { name, request, response, responseStream }: RpcDescriptor,
  path: string,
  unknownFields?: Pick<UnknownFields, "seen">,
): Method {
  return {
    name,
    path,
    responseStream,
    decodeRequest: (bytes) => {
      try {
        // None are made for a request that has none.
        let unknown: UnknownFieldsOfRequest | undefined;
        const message = decodeMessage(bytes, request, (type, number) => {
          (unknown ??= new UnknownFieldsOfRequest()).add(type, number);
        });
        if (unknown !== undefined) unknownFields?.seen(name, unknown);
        return message;
      } catch (error) {
        throw ShimError.from(error, "invalid").within("decode request");
      }
    },
    encodeResponse: compileEncoder(response),
  };
}

/** Stands for a request that could not be decoded, so that it is answered like any other bad request. */
export class UndecodableRequest {
  constructor(readonly error: ShimError) {}
}
