/** The CRI's services and messages, read from proto/ at start. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { loadSync, type Options, type ServiceDefinition } from "@grpc/proto-loader";
import { ShimError } from "../../../lib/errors.js";
import { packageDirectory } from "../../../lib/package-directory.js";
import type {
  Answer,
  Container,
  ContainerStats,
  Image,
  PodSandbox,
  PodSandboxMetrics,
  PodSandboxStats,
} from "../../../domain/cri.js";
import { decodeMessage, type FindMessage, type MessageDescriptor } from "./message-decoder.js";
import { compileEncoder } from "./message-encoder.js";
import { UnknownFieldsOfRequest, type UnknownFields } from "./unknown-fields.js";

/**
 * The shapes of domain/cri.ts: names as in the .proto files, 64-bit integers as decimal strings, enums as
 * numbers (the names of some have changed, the numbers never), a missing message as null.
 */
export const loadOptions: Options = { keepCase: true, longs: String, defaults: true, oneofs: true };

type ServiceName = "RuntimeService" | "ImageService";

export interface Method {
  /** `RunPodSandbox` */
  readonly name: string;
  /** `/runtime.v1.RuntimeService/RunPodSandbox` */
  readonly path: string;
  readonly responseStream: boolean;
  /**
   * `invalid` for bytes that are no such message, and for strings that are not UTF-8 (else they would be
   * altered).
   */
  readonly decodeRequest: (bytes: Buffer) => object;
  readonly encodeResponse: (message: object) => Buffer;
}

/** Encoders of list items: their bytes are kept between calls, or there are many of them. */
export interface ItemEncoders {
  readonly container: (message: Answer<Container>) => Buffer;
  readonly sandbox: (message: Answer<PodSandbox>) => Buffer;
  readonly containerStats: (message: Answer<ContainerStats>) => Buffer;
  readonly sandboxStats: (message: Answer<PodSandboxStats>) => Buffer;
  readonly sandboxMetrics: (message: Answer<PodSandboxMetrics>) => Buffer;
  readonly image: (message: Answer<Image>) => Buffer;
}

export interface CriApi {
  /** Every method of the four services (two API versions). */
  readonly methods: readonly Method[];
  readonly encodeItem: ItemEncoders;
}

export interface CriApiOptions {
  /** `proto` of the installation unless given. */
  readonly directory?: string;
  /** Told of each request that has fields of a later version of the protocol. */
  readonly unknownFields?: Pick<UnknownFields, "seen">;
}

/** Reads both API versions; about 50 ms. `internal` when the installation lacks its proto files. */
export function loadCriApi(options: CriApiOptions = {}): CriApi {
  const { directory = join(packageDirectory(), "proto"), unknownFields } = options;
  const fileOf = (version: string): string => join(directory, "runtime", version, "api.proto");
  const v1 = loadSync(fileOf("v1"), loadOptions);
  const older = readFileSync(fileOf("v1alpha2"), "utf8");
  const findMessage: FindMessage = (name) =>
    (v1[`runtime.v1.${name}`] as { readonly type?: MessageDescriptor } | undefined)?.type;
  const methods = (["RuntimeService", "ImageService"] as const).flatMap((service) => {
    // The type of a package entry cannot be told apart by its fields; a service is one by its name.
    const definition = v1[`runtime.v1.${service}`] as ServiceDefinition;
    const own = methodsOf(definition, findMessage, unknownFields);
    // Every method of v1alpha2 is one of v1, too, and its messages are the same bytes. Read as v1 they also
    // have the fields that are newer than v1alpha2, as their defaults, which is what handlers count on.
    const names = rpcNames(older, service);
    const inherited = own
      .filter(({ name }) => names.has(name))
      .map((method) => ({ ...method, path: `/runtime.v1alpha2.${service}/${method.name}` }));
    return [...own, ...inherited];
  });
  const item = <T>(name: string): ((message: Answer<T>) => Buffer) => {
    const type = findMessage(name);
    if (type === undefined) throw new ShimError("internal", `the proto files lack the message ${name}`);
    const encode = compileEncoder(type, findMessage);
    return (message) => encode(message as object);
  };
  return {
    methods,
    encodeItem: {
      container: item<Container>("Container"),
      sandbox: item<PodSandbox>("PodSandbox"),
      containerStats: item<ContainerStats>("ContainerStats"),
      sandboxStats: item<PodSandboxStats>("PodSandboxStats"),
      sandboxMetrics: item<PodSandboxMetrics>("PodSandboxMetrics"),
      image: item<Image>("Image"),
    },
  };
}

/**
 * The encoded answer of a list RPC (ListContainers, ListPodSandbox, ListContainerStats, ListPodSandboxStats,
 * ListPodSandboxMetrics, ListImages and their streamed forms) from its encoded items: a message whose only
 * field, number 1, is the repeated item.
 */
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

/** The methods of a service as @grpc/proto-loader reads it. */
export function methodsOf(
  definition: ServiceDefinition,
  findMessage: FindMessage,
  unknownFields?: CriApiOptions["unknownFields"],
): Method[] {
  return Object.entries(definition).map(([name, method]) => {
    const { type } = method.requestType as { readonly type: MessageDescriptor };
    const { type: responseType } = method.responseType as { readonly type: MessageDescriptor };
    return {
      name,
      path: method.path,
      responseStream: method.responseStream,
      decodeRequest: (bytes) => {
        try {
          // None are made for a request that has none.
          let unknown: UnknownFieldsOfRequest | undefined;
          const onUnknown = (message: string, number: number): void => {
            (unknown ??= new UnknownFieldsOfRequest()).add(message, number);
          };
          const request = decodeMessage(bytes, type, { findMessage, onUnknown });
          if (unknown !== undefined) unknownFields?.seen(name, unknown);
          return request;
        } catch (error) {
          throw ShimError.from(error, "invalid").within("decode request");
        }
      },
      encodeResponse: compileEncoder(responseType, findMessage),
    };
  });
}

/**
 * The RPCs of a service in the text of a .proto file: all that is wanted of an API whose messages are known
 * from another.
 */
function rpcNames(text: string, service: ServiceName): ReadonlySet<string> {
  const [, body = ""] = new RegExp(`^service ${service} \\{$(.*?)^\\}$`, "ms").exec(text) ?? [];
  return new Set([...body.matchAll(/^ *rpc (\w+)\(/gm)].map(([, name = ""]) => name));
}

/** Stands for a request that could not be decoded, so that it is answered like any other bad request. */
export class UndecodableRequest {
  constructor(readonly error: ShimError) {}
}
