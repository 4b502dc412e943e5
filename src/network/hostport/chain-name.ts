/** Names of the chains that dockershim, cri-dockerd and CRI-O gave to host ports of kubenet pods. */
import { createHash } from "node:crypto";
import type { PortMapping } from "../../shim/domain/port-mapping.js";

/** In the nat table: the chain with one rule for each host port. */
export const baseChain = "KUBE-HOSTPORTS";
export const chainPrefix = "KUBE-HP-";

const hashCharacters = 16;
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/** `hostIp` is a part of the name in cri-dockerd and CRI-O; dockershim 1.20 left it out. */
export function hostPortChainName(
  sandboxId: string,
  {
    hostPort,
    protocol,
    hostIp = "",
  }: Omit<PortMapping, "containerPort" | "hostIp"> & { readonly hostIp?: string },
): string {
  const digest = createHash("sha256")
    .update(`${sandboxId}${String(hostPort)}${protocol.toUpperCase()}${hostIp}`)
    .digest();
  return chainPrefix + base32(digest).slice(0, hashCharacters);
}

/** Every name that an ancestor may have given to the mapping. */
export function hostPortChainNames(
  sandboxId: string,
  mapping: Omit<PortMapping, "containerPort">,
): readonly string[] {
  const { hostPort, protocol } = mapping;
  return [
    ...new Set([hostPortChainName(sandboxId, { hostPort, protocol }), hostPortChainName(sandboxId, mapping)]),
  ];
}

/** RFC 4648, without padding. */
function base32(bytes: Uint8Array): string {
  let text = "";
  let bits = 0;
  let value = 0;
  for (const byte of bytes) {
    value = ((value << 8) | byte) & 0xfff;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += alphabet.charAt((value >> bits) & 31);
    }
  }
  return bits === 0 ? text : text + alphabet.charAt((value << (5 - bits)) & 31);
}
