/** The requests of runtime.v1, field by field, as proto/ has them. */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { loadSync } from "@grpc/proto-loader";

export const repository = fileURLToPath(new URL("../../..", import.meta.url));

interface FieldDescriptor {
  readonly name: string;
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

const definition: Definition = loadSync(join(repository, "proto", "runtime", "v1", "api.proto"), {
  keepCase: true,
});

export interface Rpc {
  readonly name: string;
  readonly request: string;
}

/** Every RPC of both services, with the name of its request message. */
export function allRpcs(): readonly Rpc[] {
  return ["RuntimeService", "ImageService"].flatMap((service) => {
    const methods = definition[`runtime.v1.${service}`] as Readonly<
      Record<string, { readonly requestType: { readonly type: MessageDescriptor } }>
    >;
    return Object.entries(methods).map(([name, method]) => ({ name, request: method.requestType.type.name }));
  });
}

/** `Message.field` of each message that the named ones consist of, themselves included; values of maps count as well. */
export function fieldsOf(requests: Iterable<string>): ReadonlySet<string> {
  const fields = new Set<string>();
  const seen = new Set<string>();
  const visit = (message: string): void => {
    if (seen.has(message)) return;
    seen.add(message);
    const descriptor = (
      definition[`runtime.v1.${message}`] as { readonly type?: MessageDescriptor } | undefined
    )?.type;
    // Enums have no fields; entries of maps are nested messages of their own.
    for (const { name, typeName } of descriptor?.field ?? []) {
      fields.add(`${message}.${name}`);
      if (typeName !== "") visit(typeName.replace(/^\.?runtime\.v1\./, ""));
    }
  };
  for (const request of requests) visit(request);
  return fields;
}
