/** What dead pods have left behind on the node: found for `dockershim doctor network`, cleaned when the shim starts. */
import { cleanLeftovers, type CleanUp } from "./cni/clean-leftovers.js";
import type { CniParts } from "./cni/create-cni-plugin.js";
import { readHoldings } from "./cni/holdings.js";
import { findLeftovers, type Finding, type KnownSandboxes } from "./cni/reconcile.js";

export type { CleanUp, Finding, KnownSandboxes };

export class NetworkLeftovers {
  constructor(private readonly parts: CniParts) {}

  /** Compares cache, addresses and rules with the sandboxes that there are. Changes nothing. */
  async find(known: () => Promise<KnownSandboxes>, signal: AbortSignal): Promise<readonly Finding[]> {
    const { cache, natTable } = this.parts;
    return findLeftovers(() => readHoldings({ cache, natTable, networks: [] }, signal), known);
  }

  /** Removes what is certainly ours; the rest is left and reported. */
  async clean(known: () => Promise<KnownSandboxes>, signal: AbortSignal): Promise<CleanUp> {
    return cleanLeftovers(await this.find(known, signal), this.parts, signal);
  }
}
