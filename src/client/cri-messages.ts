/** The RPCs of the CRI and their messages to and from bytes. */
import { criMessages, criRpcs } from "../domain/cri-descriptors.js";
import { DescriptorTable, type MessageDescriptor } from "../shim/grpc/codec/descriptors.js";
import { decodeMessage } from "../shim/grpc/codec/message-decoder.js";
import { compileEncoder } from "../shim/grpc/codec/message-encoder.js";

/** An RPC of the CRI: its messages to and from bytes, in the shapes of domain/cri.ts. */
export interface CriMethod {
  /** `/runtime.v1.RuntimeService/Version` */
  readonly path: string;
  readonly responseStream: boolean;
  readonly requestSerialize: (message: object) => Buffer;
  readonly responseSerialize: (message: object) => Buffer;
  /** Fields of a later version of the CRI are passed over. Throws `invalid`, as does `responseDeserialize`. */
  readonly requestDeserialize: (bytes: Buffer) => object;
  readonly responseDeserialize: (bytes: Buffer) => object;
}

const methods: ReadonlyMap<string, CriMethod> = new Map(
  new DescriptorTable(criMessages)
    .rpcs(criRpcs)
    .map(({ name, service, request, response, responseStream }) => [
      name,
      {
        path: `/runtime.v1.${service}/${name}`,
        responseStream,
        requestSerialize: compileEncoder(request),
        responseSerialize: compileEncoder(response),
        requestDeserialize: decoder(request),
        responseDeserialize: decoder(response),
      },
    ]),
);

/** The RPCs of both services by name, with the paths of v1. */
export function criMethods(): ReadonlyMap<string, CriMethod> {
  return methods;
}

function decoder(descriptor: MessageDescriptor): (bytes: Buffer) => object {
  return (bytes) => decodeMessage(bytes, descriptor, () => undefined);
}
