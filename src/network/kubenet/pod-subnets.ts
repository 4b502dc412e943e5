/** The node's pod CIDRs, as kubenet uses them. */
import { isIP } from "node:net";
import { ShimError } from "../../shim/lib/errors.js";
import type { AddressFamily } from "../iptables/iptables.js";

export interface PodSubnet {
  readonly family: AddressFamily;
  /** In CIDR form, with all host bits zero. */
  readonly cidr: string;
  /** The first address, which the bridge has. */
  readonly gateway: string;
}

/** The address plugin needs a gateway and at least one address more. */
const leastHostBits = 2;

/**
 * One subnet, or one of each family. Host bits are masked: kubelets hand out CIDRs with some set, which the address
 * plugin refuses. Throws `invalid`.
 */
export function parsePodSubnets(cidrs: readonly string[]): readonly PodSubnet[] {
  const subnets = cidrs
    .flatMap((text) => text.split(","))
    .map((text) => text.trim())
    .filter((text) => text !== "")
    .map(parseSubnet);
  if (subnets.length === 0) throw new ShimError("invalid", "no pod CIDR");
  for (const family of ["ipv4", "ipv6"]) {
    const same = subnets.filter((subnet) => subnet.family === family).map(({ cidr }) => cidr);
    if (same.length > 1)
      throw new ShimError("invalid", `pod CIDRs ${same.join(" and ")}: of one address family`);
  }
  return subnets;
}

function parseSubnet(text: string): PodSubnet {
  const [, address = "", length = ""] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? [];
  const version = isIP(address);
  const bits = version === 6 ? 128 : 32;
  const prefixLength = Number(length);
  // "::ffff:1.2.3.4" and zones have no place in a pod network.
  if (version === 0 || length === "" || prefixLength > bits || (version === 6 && /[.%]/.test(address))) {
    throw new ShimError("invalid", `pod CIDR ${JSON.stringify(text)}: not a network, as 10.244.1.0/24`);
  }
  if (bits - prefixLength < leastHostBits) {
    throw new ShimError("invalid", `pod CIDR ${JSON.stringify(text)}: too small for a pod`);
  }
  const hostBits = BigInt(bits - prefixLength);
  const network = (numberOf(address, version) >> hostBits) << hostBits;
  const format = version === 6 ? formatIpv6 : formatIpv4;
  return {
    family: version === 6 ? "ipv6" : "ipv4",
    cidr: `${format(network)}/${String(prefixLength)}`,
    gateway: format(network + 1n),
  };
}

function numberOf(address: string, version: number): bigint {
  if (version === 4) return address.split(".").reduce((sum, part) => sum * 256n + BigInt(part), 0n);
  const [head = "", tail] = address.split("::");
  const groups = (text: string): readonly string[] => (text === "" ? [] : text.split(":"));
  const first = groups(head);
  const last = groups(tail ?? "");
  const zeros = Array.from({ length: 8 - first.length - last.length }, () => "0");
  return [...first, ...(tail === undefined ? [] : zeros), ...last].reduce(
    (sum, group) => sum * 65_536n + BigInt(`0x${group}`),
    0n,
  );
}

function formatIpv4(value: bigint): string {
  return [24n, 16n, 8n, 0n].map((shift) => String((value >> shift) & 255n)).join(".");
}

/** The form of RFC 5952, as tools print it. */
function formatIpv6(value: bigint): string {
  const groups = Array.from({ length: 8 }, (_, index) =>
    ((value >> BigInt(16 * (7 - index))) & 0xffffn).toString(16),
  );
  let [bestStart, bestLength] = [0, 0];
  for (let start = 0; start < 8; start += 1) {
    let length = 0;
    while (groups[start + length] === "0") length += 1;
    if (length > bestLength) [bestStart, bestLength] = [start, length];
  }
  if (bestLength < 2) return groups.join(":");
  return `${groups.slice(0, bestStart).join(":")}::${groups.slice(bestStart + bestLength).join(":")}`;
}
