/** Host ports of dockershim and cri-dockerd whose pods are dead. */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { KnownSandboxes } from "./reconcile.js";
import type { AddressFamily } from "../iptables/iptables.js";
import { parseSavedTable } from "../iptables/saved-table.js";
import { legacyChains, isChainOf, type LegacyChain } from "../hostport/legacy-chains.js";

/** A chain that belongs to no living container. */
export interface OrphanedChain {
  readonly kind: "hostPortChain";
  readonly family: AddressFamily;
  readonly chain: string;
  /** One line for people. */
  readonly what: string;
  /** The dead sandbox of ours whose it was; absent when it is of none that is known. */
  readonly ownerId?: string;
  readonly certainlyOurs: boolean;
}

/** The name of a chain is a hash over its sandbox, so it tells of each sandbox whether the chain is its. */
export async function orphanedChains(
  natTables: readonly { readonly family: AddressFamily; readonly save: string }[],
  { livingIds, ownIds }: KnownSandboxes,
): Promise<readonly OrphanedChain[]> {
  const ids = [...livingIds, ...[...ownIds].filter((id) => !livingIds.has(id))];
  const found: OrphanedChain[] = [];
  for (const { family, save } of natTables) {
    for (const chain of legacyChains(parseSavedTable(save))) {
      // Hundreds of chains and sandboxes are some hundred thousand hashes.
      await nextTurn();
      const ownerId = ids.find((id) => isChainOf(chain, id));
      if (ownerId !== undefined && livingIds.has(ownerId)) continue;
      found.push({
        ...{ kind: "hostPortChain", family, chain: chain.chain, what: describe(family, chain) },
        ...(ownerId === undefined ? { certainlyOurs: false } : { ownerId, certainlyOurs: true }),
      });
    }
  }
  return found;
}

function describe(family: AddressFamily, { chain, hostPort, protocol, pod }: LegacyChain): string {
  const port = hostPort === undefined ? "" : `, host port ${String(hostPort)}/${protocol ?? "?"}`;
  const whose = pod === undefined ? "" : ` of pod "${pod.name}_${pod.namespace}"`;
  return `${family} nat: ${chain}${port}${whose}`;
}
