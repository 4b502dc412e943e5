/**
 * The checksum in checkpoint files. The Go programs hash the text that go-spew prints for the struct (`%#v`,
 * pointers followed), so the names of their Go types and packages are part of it: the same data has another
 * checksum in dockershim than in cri-dockerd, and each refuses the other's files.
 */

/** A checkpoint as in its file. Undefined is Go's nil. */
export interface RawCheckpoint {
  readonly version: string;
  readonly name: string;
  readonly namespace: string;
  readonly data: RawData;
}

export interface RawData {
  /** An empty list is not the same as none: they hash differently. */
  readonly portMappings: readonly RawPortMapping[] | undefined;
  readonly hostNetwork: boolean;
}

export interface RawPortMapping {
  /** As it was written: no program writes another one than tcp, udp and sctp. */
  readonly protocol: string;
  readonly containerPort: number;
  readonly hostPort: number;
  readonly hostIp: string;
}

interface Scheme {
  /** Go package of the checkpoint struct. */
  readonly outer: string;
  /** Go package of the port mapping struct. */
  readonly inner: string;
  /** What is hashed: the data alone, or all of the file with checksum 0. */
  readonly covers: "data" | "file";
  /** Whether the structs of the time had these fields. */
  readonly fields: { readonly hostIp: boolean; readonly hostNetwork: boolean };
  readonly hash: (bytes: Uint8Array) => number;
}

const all = { hostIp: true, hostNetwork: true };
const noHostIp = { hostIp: false, hostNetwork: true };
const portsOnly = { hostIp: false, hostNetwork: false };

const schemes = {
  /** kubelet 1.14 to 1.23. The one that this program writes. */
  dockershim: { outer: "dockershim", inner: "dockershim", covers: "data", fields: all, hash: fnv1a },
  /** cri-dockerd, all releases. */
  criDockerd: { outer: "core", inner: "config", covers: "data", fields: all, hash: fnv1a },
  /** Kubelets until 1.13, which did not store host IPs. */
  withoutHostIp: { outer: "dockershim", inner: "dockershim", covers: "data", fields: noHostIp, hash: fnv1a },
  /** Kubelets until about 1.10. */
  wholeFile: { outer: "dockershim", inner: "dockershim", covers: "file", fields: noHostIp, hash: fnv1a },
  /** kubelet 1.6 and 1.7. */
  wholeFileWithoutHostNetwork: {
    outer: "dockershim",
    inner: "dockershim",
    covers: "file",
    fields: portsOnly,
    hash: fnv1a,
  },
  /** Development builds before kubelet 1.6. */
  wholeFileAdler32: {
    outer: "dockershim",
    inner: "dockershim",
    covers: "file",
    fields: portsOnly,
    hash: adler32,
  },
} as const satisfies Record<string, Scheme>;

/** Who computed a checksum, and when. */
export type Flavour = keyof typeof schemes;

/** In the order in which a reader tries them. */
export const flavours = Object.keys(schemes) as readonly Flavour[];

/** The checksum of `checkpoint` in one flavour: 32 bits, unsigned. */
export function checksum(checkpoint: RawCheckpoint, flavour: Flavour): number {
  return schemes[flavour].hash(new TextEncoder().encode(hashedText(checkpoint, flavour)));
}

/**
 * The flavour in which `found` is the checksum of `checkpoint`, or undefined. A flavour that knows no host IP
 * or no host network is considered only where there is none: otherwise they could be changed under an
 * unchanged checksum.
 */
export function recogniseChecksum(checkpoint: RawCheckpoint, found: bigint): Flavour | undefined {
  const { portMappings = [], hostNetwork } = checkpoint.data;
  const hasHostIp = portMappings.some(({ hostIp }) => hostIp !== "");
  return flavours.find((flavour) => {
    const { fields } = schemes[flavour];
    if ((hasHostIp && !fields.hostIp) || (hostNetwork && !fields.hostNetwork)) return false;
    return BigInt(checksum(checkpoint, flavour)) === found;
  });
}

/** The text that is hashed, as go-spew prints it. */
function hashedText(checkpoint: RawCheckpoint, flavour: Flavour): string {
  const scheme: Scheme = schemes[flavour];
  if (scheme.covers === "data") return `(${scheme.outer}.CheckpointData)${dataText(checkpoint.data, scheme)}`;
  const { version, name, namespace, data } = checkpoint;
  return (
    `(${scheme.outer}.PodSandboxCheckpoint){Version:(string)${version} Name:(string)${name} ` +
    `Namespace:(string)${namespace} Data:(*${scheme.outer}.CheckpointData)${dataText(data, scheme)} CheckSum:(uint64)0}`
  );
}

function dataText(data: RawData, scheme: Scheme): string {
  const mappings = data.portMappings?.map((mapping) => mappingText(mapping, scheme)).join(" ");
  const list = `PortMappings:([]*${scheme.inner}.PortMapping)${mappings === undefined ? "<nil>" : `[${mappings}]`}`;
  if (!scheme.fields.hostNetwork) return `{${list}}`;
  return `{${list} HostNetwork:(bool)${data.hostNetwork}}`;
}

function mappingText({ protocol, containerPort, hostPort, hostIp }: RawPortMapping, scheme: Scheme): string {
  const ports = `ContainerPort:(*int32)${containerPort} HostPort:(*int32)${hostPort}`;
  const address = scheme.fields.hostIp ? ` HostIP:(string)${hostIp}` : "";
  return `<*>{Protocol:(*${scheme.inner}.Protocol)${protocol} ${ports}${address}}`;
}

function fnv1a(bytes: Uint8Array): number {
  let hash = 0x811c9dc5;
  for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}

function adler32(bytes: Uint8Array): number {
  let low = 1;
  let high = 0;
  for (const byte of bytes) {
    low = (low + byte) % 65521;
    high = (high + low) % 65521;
  }
  return high * 65536 + low;
}
