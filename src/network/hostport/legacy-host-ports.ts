/** Host ports that dockershim or cri-dockerd opened for kubenet pods, which this program now has to close. */
import { messageOf } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import type { HostIptables } from "../iptables/host-iptables.js";
import { changeNatTables, hostNatTables, type NatTable } from "../cni/nat-rules.js";
import { addressFamilies, type AddressFamily } from "../iptables/iptables.js";
import { parseSavedTable, type SavedTable } from "../iptables/saved-table.js";
import {
  legacyChains,
  chainsOfSandbox,
  type LegacyChain,
  type ChainOwner,
  baseChain,
  removalText,
} from "./legacy-chains.js";
import type { Conntrack } from "./conntrack.js";

export interface LegacyHostPortsOptions {
  readonly iptables: HostIptables;
  readonly conntrack: Conntrack;
  readonly log: Pick<Logger, "info" | "warn">;
}

/** One table that may hold chains. */
interface Place {
  readonly table: NatTable;
  readonly family: AddressFamily;
}

/** This program makes no such chains, so a table without them is not read again until the next start. */
export class LegacyHostPorts {
  /** Tables with such chains, or that could not be read; undefined before the first search. */
  #places: Set<Place> | undefined;

  constructor(private readonly options: LegacyHostPortsOptions) {}

  /** Searches for such chains. After a failure the first tear-down searches again. */
  async start(signal: AbortSignal): Promise<void> {
    try {
      await this.#search(signal);
    } catch (error) {
      signal.throwIfAborted();
      this.options.log.warn({ err: messageOf(error) }, "cannot search for host ports of dockershim");
    }
  }

  /** Whether a tear-down has to search for chains. */
  get present(): boolean {
    return this.#places === undefined || this.#places.size > 0;
  }

  /**
   * Removes the chains of a sandbox, and the base chains with the last one. A removal that does not fit the
   * table any more is worked out anew. Throws when that does not help; may be repeated.
   */
  async remove(owner: ChainOwner, signal: AbortSignal, otherSandboxIds?: readonly string[]): Promise<void> {
    const places = this.#places ?? (await this.#search(signal));
    for (const place of [...places]) {
      const { table, family } = place;
      const removals: Removal[] = [];
      const textFor = (save: string): string | undefined => {
        const removal = removalFrom(parseSavedTable(save), owner, otherSandboxIds);
        removals.push(removal);
        return removal.text;
      };
      await changeNatTables(() => Promise.resolve([table]), family, textFor, signal);
      const done = removals.at(-1);
      if (done?.isLast === true) places.delete(place);
      await this.#report(family, owner, done?.removed ?? [], signal);
    }
  }

  async #search(signal: AbortSignal): Promise<Set<Place>> {
    const places = new Set<Place>();
    for (const table of await hostNatTables(this.options.iptables)(signal)) {
      for (const family of addressFamilies) {
        const { chains } = parseSavedTable(await table.save(family, signal));
        if (chains.includes(baseChain)) places.add({ table, family });
      }
    }
    return (this.#places = places);
  }

  async #report(
    family: AddressFamily,
    { sandboxId }: ChainOwner,
    removed: readonly LegacyChain[],
    signal: AbortSignal,
  ): Promise<void> {
    if (removed.length === 0) return;
    const chains = removed.map(({ chain }) => chain);
    this.options.log.info({ sandboxId, family, chains }, "removed host ports of dockershim or cri-dockerd");
    for (const { protocol, hostPort, hostIp, destination } of removed) {
      if (protocol !== "udp" || hostPort === undefined) continue;
      const flow = {
        hostPort,
        ...(hostIp === undefined ? {} : { hostIp }),
        ...(destination === undefined ? {} : { podAddress: destination }),
      };
      await this.options.conntrack.forgetUdp(family, flow, signal);
    }
  }
}

interface Removal {
  readonly text: string | undefined;
  readonly removed: readonly LegacyChain[];
  /** No such chain is left afterwards. */
  readonly isLast: boolean;
}

function removalFrom(table: SavedTable, owner: ChainOwner, otherSandboxIds?: readonly string[]): Removal {
  const chains = legacyChains(table);
  const targets = new Set(chainsOfSandbox(chains, owner, otherSandboxIds));
  const text = removalText(table, targets);
  const removed = text === undefined ? [] : chains.filter(({ chain }) => targets.has(chain));
  const isLast = !table.chains.includes(baseChain) || text?.includes(`-X ${baseChain}\n`) === true;
  return { text, removed, isLast };
}
