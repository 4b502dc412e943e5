/** Host ports that dockershim or cri-dockerd opened for kubenet pods, which this program now has to close. */
import { isKind, messageOf } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import type { HostIptables } from "../iptables/host-iptables.js";
import { addressFamilies, type AddressFamily, type Iptables } from "../iptables/iptables.js";
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
  readonly iptables: Iptables;
  readonly family: AddressFamily;
}

const tries = 3;

/**
 * This program opens host ports by the portmap plugin and never makes such chains, so a table without them is
 * not read again until the next start.
 */
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
   * Removes the chains of a sandbox, and the base chains with the last one. Others may change the table
   * meanwhile, so a removal that does not fit any more is worked out anew. Throws when that does not help; a
   * repeat is harmless.
   */
  async remove(owner: ChainOwner, signal: AbortSignal, otherSandboxIds?: readonly string[]): Promise<void> {
    const places = this.#places ?? (await this.#search(signal));
    for (const place of [...places]) {
      for (let attempt = 1; ; attempt += 1) {
        const table = await read(place, signal);
        const chains = legacyChains(table);
        const targets = new Set(chainsOfSandbox(chains, owner, otherSandboxIds));
        const text = removalText(table, targets);
        if (!table.chains.includes(baseChain)) places.delete(place);
        if (text === undefined) break;
        try {
          await place.iptables.restore(place.family, text, signal);
        } catch (error) {
          if (attempt >= tries || signal.aborted || !isKind(error, "unknown")) throw error;
          continue;
        }
        if (text.includes(`-X ${baseChain}\n`)) places.delete(place);
        await this.#report(
          place.family,
          owner,
          chains.filter(({ chain }) => targets.has(chain)),
          signal,
        );
        break;
      }
    }
  }

  async #search(signal: AbortSignal): Promise<Set<Place>> {
    const places = new Set<Place>();
    for (const iptables of await this.options.iptables.everywhere(signal)) {
      for (const family of addressFamilies) {
        const place = { iptables, family };
        const { chains } = await read(place, signal);
        if (chains.includes(baseChain)) places.add(place);
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

async function read({ iptables, family }: Place, signal: AbortSignal): Promise<SavedTable> {
  return parseSavedTable(await iptables.saveIfAny(family, "nat", signal));
}
