/** Compares the network resources of the node with the existing sandboxes. Changes nothing. */
import type { KnownSandboxes } from "../../shim/ports/network-plugin.js";
import type { CacheEntry } from "../libcni/cache.js";
import type { Holdings, ReservedAddress } from "./held-resources.js";
import type { AttachmentKey } from "../libcni/network-list-runner.js";
import { chainNames, readNatRules } from "../cni/nat-rules.js";
import type { AddressFamily } from "../iptables/iptables.js";
import { setImmediate as nextTurn } from "node:timers/promises";
import { parseSavedTable } from "../iptables/saved-table.js";
import { legacyChains, isChainOf, type LegacyChain } from "../hostport/legacy-chains.js";

/** A resource without a living container. */
export type Finding = FindingSubject & {
  /** One line for people. */
  readonly what: string;
  /** The container that it was made for; absent when it is unknown. */
  readonly ownerId?: string;
  /** Other runtimes use the same plugins: only resources of recorded sandboxes may be removed. */
  readonly certainlyOurs: boolean;
};

type FindingSubject =
  | { readonly kind: "cacheEntry"; readonly entry: CacheEntry }
  | { readonly kind: "address"; readonly address: ReservedAddress }
  | { readonly kind: "natRules"; readonly family: AddressFamily }
  | {
      /** `hostPortChain`: of dockershim or cri-dockerd. */
      readonly kind: "natChain" | "hostPortChain";
      readonly family: AddressFamily;
      readonly chain: string;
    };

const sandboxIdForm = /^[0-9a-f]{64}$/;
/** The interface of each pod of this program, dockershim and cri-dockerd. */
const usualInterface = "eth0";

export function compareHoldings(holdings: Holdings, known: KnownSandboxes): readonly Finding[] {
  const { cacheEntries, addresses, natTables } = holdings;
  const dead = (id: string): boolean => !known.livingIds.has(id);
  const ours = (id: string): boolean => isOwn(id, known);
  const about = (ownerId: string): { ownerId: string; certainlyOurs: boolean } => ({
    ownerId,
    certainlyOurs: ours(ownerId),
  });

  const findings: Finding[] = [];
  for (const entry of cacheEntries) {
    const { containerId, networkName, ifName } = entry;
    if (!dead(containerId)) continue;
    const what = `cached attachment of ${ifName} to network ${networkName}`;
    findings.push({ kind: "cacheEntry", entry, what, ...about(containerId) });
  }
  for (const address of addresses) {
    if (!dead(address.containerId)) continue;
    const what = `address ${address.address} of network ${address.networkName}`;
    findings.push({ kind: "address", address, what, ...about(address.containerId) });
  }
  const ownerOfChain = chainOwners(holdings);
  for (const { family, save } of natTables) {
    const { containers, orphanChains } = readNatRules(save);
    for (const { containerId, rules, chains } of containers) {
      if (!dead(containerId)) continue;
      const what = `${family} nat: ${[...chains, `${rules.length} rules that lead there`].join(", ")}`;
      findings.push({ kind: "natRules", family, what, ...about(containerId) });
    }
    for (const chain of orphanChains) {
      const owner = ownerOfChain.get(chain);
      if (owner !== undefined && !dead(owner)) continue;
      const what = `${family} nat: chain ${chain}, to which no rule leads`;
      const whose = owner === undefined ? { certainlyOurs: false } : about(owner);
      findings.push({ kind: "natChain", family, chain, what, ...whose });
    }
  }
  return findings;
}

/** What GC must keep: all that has a resource but recorded, dead sandboxes; and all living, recorded ones. */
export function attachmentsToKeep(
  networkName: string,
  { cacheEntries, addresses, natTables }: Holdings,
  known: KnownSandboxes,
): readonly AttachmentKey[] {
  const kept = new Map<string, AttachmentKey>();
  const keep = (containerId: string, ifName: string): void => {
    if (!known.livingIds.has(containerId) && isOwn(containerId, known)) return;
    kept.set(`${containerId} ${ifName}`, { containerId, ifName });
  };
  for (const holding of [...cacheEntries, ...addresses]) {
    if (holding.networkName === networkName) keep(holding.containerId, holding.ifName);
  }
  const named = natTables.flatMap(({ save }) => readNatRules(save).containers);
  for (const { containerId } of named) keep(containerId, usualInterface);
  for (const id of known.ownIds) if (known.livingIds.has(id)) keep(id, usualInterface);
  return [...kept.values()];
}

/** Other runtimes and shims share the cache: only a record proves the owner. */
function isOwn(id: string, { ownIds }: KnownSandboxes): boolean {
  return sandboxIdForm.test(id) && ownIds.has(id);
}

/** Owners by chain name, which is a hash of network and container, for all known pairs. */
function chainOwners({ cacheEntries, addresses }: Holdings): ReadonlyMap<string, string> {
  const owners = new Map<string, string>();
  for (const { networkName, containerId } of [...cacheEntries, ...addresses]) {
    for (const chain of chainNames(networkName, containerId)) owners.set(chain, containerId);
  }
  return owners;
}

/** The name of a chain is a hash over its sandbox id, so each sandbox can be compared. */
export async function orphanedChains(
  natTables: readonly { readonly family: AddressFamily; readonly save: string }[],
  { livingIds, ownIds }: KnownSandboxes,
): Promise<readonly Finding[]> {
  const ids = [...livingIds, ...[...ownIds].filter((id) => !livingIds.has(id))];
  const found: Finding[] = [];
  for (const { family, save } of natTables) {
    for (const chain of legacyChains(parseSavedTable(save))) {
      // Hundreds of chains and sandboxes are some hundred thousand hashes.
      await nextTurn();
      const ownerId = ids.find((id) => isChainOf(chain, id));
      if (ownerId !== undefined && livingIds.has(ownerId)) continue;
      found.push({
        kind: "hostPortChain",
        family,
        chain: chain.chain,
        what: describe(family, chain),
        ...(ownerId === undefined ? { certainlyOurs: false } : { ownerId, certainlyOurs: true }),
      });
    }
  }
  return found;
}

function describe(family: AddressFamily, { chain, hostPort, protocol, pod }: LegacyChain): string {
  const port = hostPort === undefined ? "" : `, host port ${hostPort}/${protocol ?? "?"}`;
  const whose = pod === undefined ? "" : ` of pod "${pod.name}_${pod.namespace}"`;
  return `${family} nat: ${chain}${port}${whose}`;
}
