/** The nat table of the host, one per address family. */
import type { HostIptables } from "../iptables/host-iptables.js";
import { addressFamilies, type AddressFamily } from "../iptables/iptables.js";
import { readNatRules, removalText } from "./nat-rules.js";

export interface NatTable {
  /** As `iptables-save -t nat` prints it; empty where the host has no tool or table for the family. */
  save(family: AddressFamily, signal: AbortSignal): Promise<string>;
  /** Applies `text` as a whole or not at all, leaving the rest of the table. */
  restore(family: AddressFamily, text: string, signal: AbortSignal): Promise<void>;
}

/** Those that rules of plugins may be in: more than one where both backends of iptables are in use, none without it. */
export type NatTables = (signal: AbortSignal) => Promise<readonly NatTable[]>;

const tries = 3;

export function hostNatTables(host: HostIptables): NatTables {
  return async (signal) =>
    (await host.everywhere(signal)).map((iptables) => ({
      save: (family, own) => iptables.saveIfAny(family, "nat", own),
      restore: (family, text, own) => iptables.restore(family, text, own),
    }));
}

/** Removes all rules and chains of the containers from both families. */
export async function removeNatRules(
  tables: NatTables,
  containerIds: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<void> {
  const textFor = (save: string): string | undefined =>
    removalText(readNatRules(save).containers.filter(({ containerId }) => containerIds.has(containerId)));
  for (const family of addressFamilies) await changeNatTables(tables, family, textFor, signal);
}

/**
 * Restores what `textFor` makes of each table of the family; undefined leaves it. Others change the table meanwhile, so a
 * text that does not fit any more is worked out anew. Throws when that does not help.
 */
export async function changeNatTables(
  tables: NatTables,
  family: AddressFamily,
  textFor: (save: string) => string | undefined,
  signal: AbortSignal,
): Promise<void> {
  for (const table of await tables(signal)) {
    for (let attempt = 1; ; attempt += 1) {
      const text = textFor(await table.save(family, signal));
      if (text === undefined) break;
      try {
        await table.restore(family, text, signal);
        break;
      } catch (error) {
        if (attempt >= tries || signal.aborted) throw error;
      }
    }
  }
}
