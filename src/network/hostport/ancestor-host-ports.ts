/** Host ports that dockershim or cri-dockerd opened for kubenet pods, which this program now has to close. */
import { isKind, messageOf } from "../../shim/base/errors.js";
import type { Logger } from "../../shim/base/log.js";
import { addressFamilies, type AddressFamily, type Iptables } from "../iptables/iptables.js";
import { parseSavedTable, type SavedTable } from "../iptables/saved-table.js";
import { ancestorChains, chainsOfSandbox, type AncestorChain, type ChainOwner } from "./ancestor-chains.js";
import { baseChain } from "./chain-name.js";
import type { Conntrack } from "./conntrack.js";
import { removalText } from "./removal-text.js";

export interface AncestorHostPortsOptions {
  readonly iptables: Iptables;
  readonly conntrack: Conntrack;
  readonly log: Pick<Logger, "info" | "warn">;
}

const tries = 3;

/**
 * This program opens host ports by the portmap plugin and never makes such chains. So once a family is without them, it
 * is not looked at again until the next start.
 */
export class AncestorHostPorts {
  readonly #families = new Set<AddressFamily>();

  constructor(private readonly options: AncestorHostPortsOptions) {}

  /** Looks whether there are any. A family that cannot be read is looked at again at the first tear-down. */
  async start(signal: AbortSignal): Promise<void> {
    for (const family of addressFamilies) {
      try {
        const { chains } = await this.#read(family, signal);
        if (chains.includes(baseChain)) this.#families.add(family);
      } catch (error) {
        signal.throwIfAborted();
        this.options.log.warn({ family, err: messageOf(error) }, "cannot look for host ports of dockershim");
        this.#families.add(family);
      }
    }
  }

  /** Whether a tear-down has anything to look for. */
  get present(): boolean {
    return this.#families.size > 0;
  }

  /**
   * Removes the chains of a sandbox, and the base chains with the last one. Others may change the table meanwhile, so a
   * removal that does not fit any more is worked out anew. Throws when that does not help; a repeat is harmless.
   */
  async remove(owner: ChainOwner, signal: AbortSignal, otherSandboxIds?: readonly string[]): Promise<void> {
    for (const family of [...this.#families]) {
      for (let attempt = 1; ; attempt += 1) {
        const table = await this.#read(family, signal);
        const chains = ancestorChains(table);
        const targets = new Set(chainsOfSandbox(chains, owner, otherSandboxIds));
        const text = removalText(table, targets);
        if (!table.chains.includes(baseChain)) this.#families.delete(family);
        if (text === undefined) break;
        try {
          await this.options.iptables.restore(family, text, signal);
        } catch (error) {
          if (attempt >= tries || signal.aborted || !isKind(error, "unknown")) throw error;
          continue;
        }
        if (text.includes(`-X ${baseChain}\n`)) this.#families.delete(family);
        await this.#report(
          family,
          owner,
          chains.filter(({ chain }) => targets.has(chain)),
          signal,
        );
        break;
      }
    }
  }

  /** All chains that are there now. */
  async list(signal: AbortSignal): Promise<readonly (AncestorChain & { readonly family: AddressFamily })[]> {
    const found: (AncestorChain & { readonly family: AddressFamily })[] = [];
    for (const family of addressFamilies) {
      for (const chain of ancestorChains(await this.#read(family, signal))) found.push({ family, ...chain });
    }
    return found;
  }

  async #report(
    family: AddressFamily,
    { sandboxId }: ChainOwner,
    removed: readonly AncestorChain[],
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

  /** Empty where the host has no tool or no such table for the family. */
  async #read(family: AddressFamily, signal: AbortSignal): Promise<SavedTable> {
    try {
      return parseSavedTable(await this.options.iptables.save(family, "nat", signal));
    } catch (error) {
      signal.throwIfAborted();
      if (isKind(error, "notFound") || (family === "ipv6" && isKind(error, "unknown"))) {
        return { chains: [], rules: [] };
      }
      throw error;
    }
  }
}
