/** The recorded files, with their JSON brought into the shape that the code works on. */
import { readFileSync } from "node:fs";
import type { Flavour, RawCheckpoint } from "../../../checkpoints/checksum.js";

interface MappingJson {
  readonly protocol?: string;
  readonly container_port?: number;
  readonly host_port?: number;
  readonly host_ip?: string;
}

interface Expected {
  readonly checksum: number;
  readonly file: string;
  readonly readBackError?: string;
}

interface Vector {
  readonly name: string;
  readonly podName: string;
  readonly namespace: string;
  readonly data: {
    readonly port_mappings?: readonly (MappingJson | null)[];
    readonly host_network?: boolean;
  };
  readonly dockershim: Expected;
  readonly criDockerd: Expected;
}

interface OlderVector {
  readonly name: string;
  readonly flavour: Flavour;
  readonly file: string;
}

const load = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../golden/${name}`, import.meta.url), "utf8"));

export const { vectors, readCases } = load("checkpoint-vectors.json") as {
  readonly vectors: readonly Vector[];
  readonly readCases: readonly { readonly content: string; readonly result: string }[];
};

export const { vectors: olderVectors } = load("checkpoint-older-flavours.json") as {
  readonly vectors: readonly OlderVector[];
};

/** One TCP port, 8080 of the host. */
export const oneMapping = vectors.find(({ name }) => name === "one tcp mapping")!;

export function rawOf({ port_mappings, host_network }: Vector["data"]): RawCheckpoint {
  const portMappings = port_mappings?.map((json) => ({
    protocol: json?.protocol ?? "",
    containerPort: json?.container_port ?? 0,
    hostPort: json?.host_port ?? 0,
    hostIp: json?.host_ip ?? "",
  }));
  return {
    ...{ version: "v1", name: "p", namespace: "n" },
    data: { portMappings, hostNetwork: host_network === true },
  };
}
