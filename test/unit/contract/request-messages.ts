/** The requests of the CRI, field by field, as proto/ has them: of runtime.v1 unless a version is named. */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { loadSync } from "@grpc/proto-loader";

export const repository = fileURLToPath(new URL("../../..", import.meta.url));

interface FieldDescriptor {
  readonly name: string;
  /** `TYPE_INT64` … */
  readonly type: string;
  readonly typeName: string;
}

interface MessageDescriptor {
  readonly name: string;
  readonly field: readonly FieldDescriptor[];
  readonly nestedType: readonly {
    readonly name: string;
    readonly options?: { readonly mapEntry?: boolean };
  }[];
}

type Definition = Readonly<Record<string, unknown>>;

export type Version = "v1" | "v1alpha2";

const definitions: Readonly<Record<Version, Definition>> = { v1: load("v1"), v1alpha2: load("v1alpha2") };

function load(version: Version): Definition {
  return loadSync(join(repository, "proto", "runtime", version, "api.proto"), { keepCase: true });
}

export interface Rpc {
  readonly name: string;
  readonly request: string;
}

interface Method {
  readonly requestType: { readonly type: MessageDescriptor };
  readonly requestSerialize: (message: object) => Buffer;
}

function methodsOf(version: Version): ReadonlyMap<string, Method> {
  const services = ["RuntimeService", "ImageService"].map(
    (service) => definitions[version][`runtime.${version}.${service}`] as Readonly<Record<string, Method>>,
  );
  return new Map(services.flatMap((methods) => Object.entries(methods)));
}

/** Every RPC of both services, with the name of its request message. */
export function allRpcs(version: Version = "v1"): readonly Rpc[] {
  return [...methodsOf(version)].map(([name, method]) => ({ name, request: method.requestType.type.name }));
}

/** The bytes of a request, made by protobufjs; fields of other versions are left out. */
export function requestBytes(version: Version, rpc: string, message: object): Buffer | undefined {
  return methodsOf(version).get(rpc)?.requestSerialize(message);
}

/**
 * The type by `Message.field` of each message that the named ones consist of, themselves included; values of
 * maps count as well. The type is the name of the message or enum, else as in `TYPE_INT64`.
 */
export function fieldsOf(requests: Iterable<string>, version: Version = "v1"): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  const seen = new Set<string>();
  const visit = (message: string): void => {
    if (seen.has(message)) return;
    seen.add(message);
    const descriptor = (
      definitions[version][`runtime.${version}.${message}`] as
        { readonly type?: MessageDescriptor } | undefined
    )?.type;
    // Enums have no fields; entries of maps are nested messages of their own.
    for (const { name, type, typeName } of descriptor?.field ?? []) {
      const inner = typeName.replace(/^\.?runtime\.v\w+\./, "");
      fields.set(`${message}.${name}`, inner === "" ? type : inner);
      if (inner !== "") visit(inner);
    }
  };
  for (const request of requests) visit(request);
  return fields;
}
