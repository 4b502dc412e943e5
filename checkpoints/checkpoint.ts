/** Checkpoints to and from the bytes of their files. */
import { ShimError } from "../src/lib/errors.js";
import type { CheckpointPortMapping, PodSandboxCheckpoint } from "../src/shim/ports/checkpoint-store.js";
import {
  checksum,
  recogniseChecksum,
  type Flavour,
  type RawCheckpoint,
  type RawPortMapping,
} from "./checksum.js";
import { formatFile, MalformedFile, maximumFileBytes, parseFile } from "./file-format.js";

export type { CheckpointPortMapping, PodSandboxCheckpoint } from "../src/shim/ports/checkpoint-store.js";

export type DecodeResult =
  | { readonly kind: "checkpoint"; readonly checkpoint: PodSandboxCheckpoint; readonly flavour: Flavour }
  /** `reason` is for the log. `content`: what the file says, where the checksum alone is wrong. */
  | {
      readonly kind: "corrupt";
      readonly reason: string;
      readonly content?: PodSandboxCheckpoint;
      /** The file names a version that this release does not know: it is left as it is. */
      readonly isLater?: true;
    };

/** The flavours that are written: those of the programs that still read them. */
export type WrittenFlavour = Extract<Flavour, "dockershim" | "criDockerd">;

/** The file, byte for byte as the programs write it. Throws `invalid` for ports or sizes that cannot be read again. */
export function encodeCheckpoint(
  checkpoint: PodSandboxCheckpoint,
  flavour: WrittenFlavour = "dockershim",
): Uint8Array {
  const { version, name, namespace, data } = checkpoint;
  // An empty list is hashed like none: it is written like none, so any other checksum would never be right
  // again.
  const portMappings = data.portMappings?.length ? data.portMappings.map(toRaw) : undefined;
  const raw: RawCheckpoint = {
    version,
    name,
    namespace,
    data: { portMappings, hostNetwork: data.hostNetwork === true },
  };
  const bytes = new TextEncoder().encode(formatFile(raw, checksum(raw, flavour)));
  if (bytes.length > maximumFileBytes)
    throw new ShimError(
      "invalid",
      `checkpoint of pod "${namespace}/${name}": more than ${maximumFileBytes} bytes`,
    );
  return bytes;
}

/**
 * Reads the file of any flavour. Never throws: whatever is not a checkpoint with the right checksum is
 * `corrupt`, and so is one with a null entry or a mapping without protocol or ports, which the Go programs
 * accept, and crash later.
 *
 * The version is not looked at: a checksum of the known layout proves the layout.
 */
export function decodeCheckpoint(bytes: Uint8Array): DecodeResult {
  try {
    const { checkpoint: raw, checksum: found } = parseFile(bytes);
    const flavour = recogniseChecksum(raw, found);
    const checkpoint = toCheckpoint(raw);
    if (flavour === undefined) {
      const reason = `checksum ${found} is not that of the content`;
      if (laterVersion(bytes) !== undefined) throw new MalformedFile(reason);
      return { kind: "corrupt", reason, content: checkpoint };
    }
    return { kind: "checkpoint", checkpoint, flavour };
  } catch (error) {
    if (!(error instanceof MalformedFile)) throw error;
    const later = laterVersion(bytes);
    return later === undefined
      ? { kind: "corrupt", reason: error.message }
      : { kind: "corrupt", isLater: true, reason: `version ${JSON.stringify(later)} is of a later release` };
  }
}

/** The version, when it is above the only one that there is. */
function laterVersion(bytes: Uint8Array): string | undefined {
  if (bytes.length > maximumFileBytes) return undefined;
  try {
    const file = JSON.parse(new TextDecoder().decode(bytes)) as { readonly version?: unknown } | null;
    const { version } = file ?? {};
    return typeof version === "string" && /^v(?:[2-9]|[1-9]\d{1,5})$/.test(version) ? version : undefined;
  } catch {
    return undefined; // Not JSON.
  }
}

function toCheckpoint({ name, namespace, data }: RawCheckpoint): PodSandboxCheckpoint {
  const portMappings = (data.portMappings ?? []).map(fromRaw);
  return {
    version: "v1",
    name,
    namespace,
    data: {
      ...(portMappings.length > 0 ? { portMappings } : {}),
      ...(data.hostNetwork ? { hostNetwork: true } : {}),
    },
  };
}

function toRaw(mapping: CheckpointPortMapping): RawPortMapping {
  const { protocol, containerPort, hostPort, hostIp = "" } = mapping;
  for (const port of [containerPort, hostPort]) {
    if (!Number.isInteger(port) || port !== (port | 0))
      throw new ShimError("invalid", `port mapping in a checkpoint: ${port} is not a 32-bit integer`);
  }
  return { protocol, containerPort, hostPort, hostIp };
}

function fromRaw({ protocol, containerPort, hostPort, hostIp }: RawPortMapping): CheckpointPortMapping {
  return { protocol: protocolOf(protocol), containerPort, hostPort, ...(hostIp === "" ? {} : { hostIp }) };
}

/** As in dockershim, a protocol that is none of the three (which no program writes) stands for TCP. */
function protocolOf(text: string): CheckpointPortMapping["protocol"] {
  return text === "udp" || text === "sctp" ? text : "tcp";
}
