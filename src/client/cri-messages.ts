/** The RPCs of the CRI and their messages to and from bytes, without reading the .proto file. */
import { criMessages, criRpcs } from "../domain/cri-descriptors.js";
import {
  decodeMessage,
  type FieldDescriptor,
  type FindMessage,
  type MessageDescriptor,
} from "../shim/grpc/codec/message-decoder.js";
import { compileEncoder } from "../shim/grpc/codec/message-encoder.js";
import { ShimError } from "../lib/errors.js";

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

const known = new Map<string, MessageDescriptor>();

/** In the form of @grpc/proto-loader; made when it is first asked for. Undefined for what is no message. */
export const findCriMessage: FindMessage = (name) => {
  const text = criMessages[name];
  if (text === undefined) return undefined;
  let descriptor = known.get(name);
  if (descriptor === undefined) {
    descriptor = parseMessage(name, text);
    known.set(name, descriptor);
  }
  return descriptor;
};

const methods = new Map(
  Object.entries(criRpcs).map(([name, text]): [string, CriMethod] => {
    const [service = "", request = "", response = "", stream] = text.split(" ");
    return [
      name,
      {
        path: `/runtime.v1.${service}/${name}`,
        responseStream: stream !== undefined,
        requestSerialize: encoder(request),
        responseSerialize: encoder(response),
        requestDeserialize: decoder(request),
        responseDeserialize: decoder(response),
      },
    ];
  }),
);

/** The RPCs of both services by name, with the paths of v1. */
export function criMethods(): ReadonlyMap<string, CriMethod> {
  return methods;
}

function parseMessage(name: string, text: string): MessageDescriptor {
  const nestedType: MessageDescriptor["nestedType"][number][] = [];
  const field = (text === "" ? [] : text.split(",")).map((one) => {
    const [id = "", type = "", keyType, valueType] = one.split(" ");
    const [fieldName = "", number = ""] = id.split("=");
    if (keyType === undefined || valueType === undefined) return parseField(fieldName, Number(number), type);
    const entry = `${fieldName} entry`;
    nestedType.push({
      name: entry,
      field: [parseField("key", 1, keyType), parseField("value", 2, valueType)],
      nestedType: [],
      options: { mapEntry: true },
    });
    return parseField(fieldName, Number(number), `message:${entry}[]`);
  });
  return { name, field, nestedType };
}

/** `type`: `int32`, `string[]`, `message:Mount[]`, `enum:Protocol` */
function parseField(name: string, number: number, type: string): FieldDescriptor {
  const isList = type.endsWith("[]");
  const [kind = "", typeName = ""] = (isList ? type.slice(0, -2) : type).split(/:(.*)/);
  const label = isList ? "LABEL_REPEATED" : "LABEL_OPTIONAL";
  return { name, number, label, type: `TYPE_${kind.toUpperCase()}`, typeName };
}

function encoder(name: string): (message: object) => Buffer {
  let encode: ((message: object) => Buffer) | undefined;
  return (message) => (encode ??= compileEncoder(descriptorOf(name), findCriMessage))(message);
}

function decoder(name: string): (bytes: Buffer) => object {
  const context = { findMessage: findCriMessage, onUnknown: () => undefined };
  return (bytes) => decodeMessage(bytes, descriptorOf(name), context);
}

function descriptorOf(name: string): MessageDescriptor {
  const descriptor = findCriMessage(name);
  if (descriptor === undefined) throw new ShimError("internal", `the CRI has no message named "${name}"`);
  return descriptor;
}
