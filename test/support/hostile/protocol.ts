/**
 * The requests of every RPC as proto/ describes them: what the generator needs to know of a new field or RPC.
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { loadSync } from "@grpc/proto-loader";
import type { ApiVersion } from "../cri-client.js";

export interface Field {
  readonly name: string;
  readonly number: number;
  readonly label: "LABEL_OPTIONAL" | "LABEL_REPEATED" | "LABEL_REQUIRED";
  readonly type: string;
  readonly typeName: string;
}

export interface Message {
  readonly name: string;
  readonly field: readonly Field[];
  readonly nestedType: readonly (Message & { readonly options?: { readonly mapEntry?: boolean } | null })[];
}

export interface Rpc {
  readonly name: string;
  readonly version: ApiVersion;
  /** `/runtime.v1.RuntimeService/Version` */
  readonly path: string;
  readonly isStream: boolean;
  readonly request: Message;
  readonly encode: (request: object) => Buffer;
}

interface MethodDefinition {
  readonly path: string;
  readonly responseStream: boolean;
  readonly requestType: { readonly type: Message };
  readonly requestSerialize: (request: object) => Buffer;
}

const directory = fileURLToPath(new URL("../../../proto/runtime", import.meta.url));
const versions = (["v1", "v1alpha2"] as const).map((version) => ({
  version,
  definition: loadSync(join(directory, version, "api.proto"), { keepCase: true, longs: String }),
}));

/** Every RPC of both services and both versions. */
export const rpcs: readonly Rpc[] = versions.flatMap(({ version, definition }) =>
  ["RuntimeService", "ImageService"].flatMap((service) =>
    Object.entries(
      definition[`runtime.${version}.${service}`] as unknown as Record<string, MethodDefinition>,
    ).map(([name, method]) => ({
      ...{ name, version, path: method.path, isStream: method.responseStream },
      ...{ request: method.requestType.type, encode: method.requestSerialize },
    })),
  ),
);

/** The message that a field holds (entries of maps, too); undefined for everything else. */
export function messageOf(rpc: Rpc, parent: Message, { type, typeName }: Field): Message | undefined {
  if (type !== "TYPE_MESSAGE") return undefined;
  const nested = parent.nestedType.find(({ name }) => name === typeName);
  if (nested !== undefined) return nested;
  const found = versions.find(({ version }) => version === rpc.version)?.definition[
    `runtime.${rpc.version}.${typeName}`
  ] as unknown as { readonly type: Message } | undefined;
  return found?.type;
}
