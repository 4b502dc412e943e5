/** The recorded files, with their JSON brought into the shape that the code works on. */
import { readFileSync } from "node:fs";
import type { RawCheckpoint, RawPortMapping } from "../../../checkpoints/checksum.js";

interface MappingJson {
  readonly protocol?: string;
  readonly container_port?: number;
  readonly host_port?: number;
  readonly host_ip?: string;
}

interface Expected {
  readonly hashed: string;
  readonly checksum: number;
  readonly file?: string;
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
  readonly dockershim: Required<Pick<Expected, "file">> & Expected;
  readonly criDockerd: Required<Pick<Expected, "file">> & Expected;
  readonly olderDockershimWithoutHostIP?: Expected;
}

interface ReadCase {
  readonly content: string;
  readonly result: string;
}

interface OlderVector {
  readonly name: string;
  readonly flavour: "withoutHostIp" | "wholeFile" | "wholeFileWithoutHostNetwork" | "wholeFileAdler32";
  readonly hashed: string;
  readonly checksum: number;
  readonly file: string;
}

const load = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../golden/${name}`, import.meta.url), "utf8"));

export const { vectors, readCases } = load("checkpoint-vectors.json") as {
  readonly vectors: readonly Vector[];
  readonly readCases: readonly ReadCase[];
};

export const { vectors: olderVectors } = load("checkpoint-older-flavours.json") as {
  readonly vectors: readonly OlderVector[];
};

export function rawOf(vector: Pick<Vector, "podName" | "namespace" | "data">): RawCheckpoint {
  return {
    version: "v1",
    name: vector.podName,
    namespace: vector.namespace,
    data: {
      portMappings: vector.data.port_mappings?.map(rawMapping),
      hostNetwork: vector.data.host_network === true,
    },
  };
}

function rawMapping(json: MappingJson | null): RawPortMapping | null {
  if (json === null) return null;
  return {
    protocol: json.protocol,
    containerPort: json.container_port,
    hostPort: json.host_port,
    hostIp: json.host_ip ?? "",
  };
}
