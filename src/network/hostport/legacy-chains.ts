/** The iptables chains that dockershim and cri-dockerd made for host ports: names, owners, removal. */
import { createHash } from "node:crypto";
import type { PortMapping, PortProtocol } from "../../domain/sandbox.js";
import { commentOf, targetOf, wordAfter, type SavedRule, type SavedTable } from "../iptables/saved-table.js";
import { isIP } from "node:net";

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
    .update(`${sandboxId}${hostPort}${protocol.toUpperCase()}${hostIp}`)
    .digest();
  return chainPrefix + base32(digest).slice(0, hashCharacters);
}

/** The names that dockershim and cri-dockerd give to the mapping. */
export function hostPortChainNames(
  sandboxId: string,
  mapping: Omit<PortMapping, "containerPort">,
): readonly string[] {
  const { hostPort, protocol } = mapping;
  const plain = hostPortChainName(sandboxId, { hostPort, protocol });
  return [...new Set([plain, hostPortChainName(sandboxId, mapping)])];
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

/** One chain, with the facts in its rules. */
export interface LegacyChain {
  readonly chain: string;
  /** By the comment of its rules, which names no sandbox. */
  readonly pod?: { readonly namespace: string; readonly name: string };
  readonly hostPort?: number;
  readonly protocol?: PortProtocol;
  /** Only cri-dockerd put it into a rule. */
  readonly hostIp?: string;
  /** The pod's address. */
  readonly destination?: string;
}

/** A sandbox that may own chains. */
export interface ChainOwner {
  readonly sandboxId: string;
  readonly namespace: string;
  readonly name: string;
  /** Those of its set-up; may be empty when they are lost. */
  readonly portMappings: readonly PortMapping[];
}

const protocols: readonly string[] = ["tcp", "udp", "sctp"] satisfies PortProtocol[];

export function legacyChains(table: SavedTable): readonly LegacyChain[] {
  return table.chains
    .filter((chain) => chain.startsWith(chainPrefix))
    .map((chain) => {
      const own = table.rules.filter((rule) => rule.chain === chain);
      const jumps = table.rules.filter((rule) => targetOf(rule) === chain);
      return { chain, ...factsOf([...jumps, ...own]) };
    });
}

/**
 * The names among `chains` that belong to the sandbox. The name is a hash over id, port, protocol and, by
 * some, host address. Where the mappings of the set-up are lost, they are read from the rules.
 *
 * The comment names only the pod, of which a newer sandbox may run: it decides only about chains that belong
 * to none of `otherSandboxIds`, all other sandboxes. Without that list it decides nothing.
 */
export function chainsOfSandbox(
  chains: readonly LegacyChain[],
  owner: ChainOwner,
  otherSandboxIds?: readonly string[],
): readonly string[] {
  const expected = new Set(
    owner.portMappings
      .filter(({ hostPort }) => hostPort > 0)
      .flatMap((mapping) => hostPortChainNames(owner.sandboxId, mapping)),
  );
  return chains
    .filter(
      (chain) =>
        expected.has(chain.chain) ||
        isChainOf(chain, owner.sandboxId) ||
        (otherSandboxIds !== undefined &&
          owner.name !== "" &&
          chain.pod?.name === owner.name &&
          chain.pod.namespace === owner.namespace &&
          !otherSandboxIds.some((id) => isChainOf(chain, id))),
    )
    .map(({ chain }) => chain);
}

/** Rules of others that lead from the built-in chains to the host ports, and that serve nothing else. */
export function isBaseRule(rule: SavedRule): boolean {
  if (rule.chain.startsWith("KUBE-")) return false;
  return targetOf(rule) === baseChain || commentOf(rule) === "SNAT for localhost access to hostports";
}

/** Whether the name of the chain is that of a mapping of the sandbox, by the facts in its rules. */
export function isChainOf({ chain, hostPort, protocol, hostIp }: LegacyChain, sandboxId: string): boolean {
  if (hostPort === undefined || protocol === undefined) return false;
  // Addresses that mean "all" are in no rule, but in the hash.
  return ["", "0.0.0.0", "::", ...(hostIp === undefined ? [] : [hostIp])].some(
    (address) => hostPortChainName(sandboxId, { hostPort, protocol, hostIp: address }) === chain,
  );
}

function factsOf(rules: readonly SavedRule[]): Omit<LegacyChain, "chain"> {
  const first = <T>(read: (rule: SavedRule) => T | undefined): T | undefined => {
    for (const rule of rules) {
      const value = read(rule);
      if (value !== undefined) return value;
    }
    return undefined;
  };
  const comment = first(
    (rule) => /^([^_ ]+)_([^_ ]+) hostport (\d+)$/.exec(commentOf(rule) ?? "") ?? undefined,
  );
  const protocol = first((rule) => wordAfter(rule, "-p"));
  const hostIp = first((rule) => wordAfter(rule, "-d"))?.replace(/\/(?:32|128)$/, "");
  const destination = addressOf(first((rule) => wordAfter(rule, "--to-destination")));
  return {
    ...(comment?.[1] === undefined || comment[2] === undefined
      ? {}
      : { pod: { name: comment[1], namespace: comment[2] }, hostPort: Number(comment[3]) }),
    ...(isProtocol(protocol) ? { protocol } : {}),
    ...(hostIp === undefined ? {} : { hostIp }),
    ...(destination === undefined ? {} : { destination }),
  };
}

/** From `10.0.0.2:80` or `[fd00::2]:80`. */
function addressOf(destination: string | undefined): string | undefined {
  const address = /^\[?(.*?)\]?:\d+$/.exec(destination ?? "")?.[1];
  return address !== undefined && isIP(address) !== 0 ? address : undefined;
}

function isProtocol(text: string | undefined): text is PortProtocol {
  return text !== undefined && protocols.includes(text);
}

/**
 * Removes the chains `targets` and every rule that leads to them; with the last chain of the table go the
 * base chain and the rules that lead there, for they keep kube-proxy from cleaning up. Undefined when nothing
 * is to be removed.
 *
 * Text for `iptables-restore --noflush`. Rules are deleted one by one, as they were printed, so that no rule
 * of another program is lost; when the table has changed meanwhile, the whole text is refused.
 */
export function removalText(table: SavedTable, targets: ReadonlySet<string>): string | undefined {
  const chains = table.chains.filter((chain) => targets.has(chain));
  const jumps = table.rules.filter((rule) => !targets.has(rule.chain) && targets.has(targetOf(rule) ?? ""));
  const others = table.chains.some((chain) => chain.startsWith(chainPrefix) && !targets.has(chain));
  const left = table.rules.some((rule) => rule.chain === baseChain && !jumps.includes(rule));
  const base = others || left || !table.chains.includes(baseChain) ? [] : [baseChain];
  const baseRules = base.length === 0 ? [] : table.rules.filter(isBaseRule);
  if (chains.length + base.length === 0) return undefined;
  const lines = [
    "*nat",
    ...[...jumps, ...baseRules].map(({ chain, text }) => `-D ${chain} ${text}`),
    ...chains.map((chain) => `-F ${chain}`),
    ...[...chains, ...base].map((chain) => `-X ${chain}`),
    "COMMIT",
  ];
  return `${lines.join("\n")}\n`;
}
