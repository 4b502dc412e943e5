/** The nat table of the host, one per address family. */
import { isKind } from "../../shim/base/errors.js";
import { addressFamilies, type AddressFamily } from "../iptables/iptables.js";
import { outputOf, runCommand, type RunCommand } from "../iptables/run-command.js";
import { readNatRules, removalText } from "./nat-rules.js";

export interface NatTable {
  /** As `iptables-save -t nat` prints it; empty where the host has no tool or table for the family. */
  save(family: AddressFamily, signal: AbortSignal): Promise<string>;
  /** Applies `text` as a whole or not at all, leaving the rest of the table. */
  restore(family: AddressFamily, text: string, signal: AbortSignal): Promise<void>;
}

const tools = { ipv4: "iptables", ipv6: "ip6tables" } as const;
/** How long to wait for others that hold the table, in seconds. */
const lockWaitSeconds = "5";
const tries = 3;

/** By the tools under their plain names, whichever kind these are: plugins call them so, too. */
export class HostNatTable implements NatTable {
  constructor(private readonly run: RunCommand = runCommand) {}

  async save(family: AddressFamily, signal: AbortSignal): Promise<string> {
    try {
      return await outputOf(this.run, `${tools[family]}-save`, ["-t", "nat"], { signal });
    } catch (error) {
      signal.throwIfAborted();
      // Without a tool no plugin could make rules; a kernel without IPv6 has no table for them.
      if (isKind(error, "notFound") || (isKind(error, "unknown") && family === "ipv6")) return "";
      throw error;
    }
  }

  async restore(family: AddressFamily, text: string, signal: AbortSignal): Promise<void> {
    const words = ["--noflush", "-w", lockWaitSeconds];
    await outputOf(this.run, `${tools[family]}-restore`, words, { signal, input: text });
  }
}

/**
 * Removes all rules and chains of the containers from both families. Others change the table meanwhile, so a removal
 * that does not fit any more is worked out anew. Throws when that does not help.
 */
export async function removeNatRules(
  table: NatTable,
  containerIds: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<void> {
  for (const family of addressFamilies) {
    for (let attempt = 1; ; attempt += 1) {
      const { containers } = readNatRules(await table.save(family, signal));
      const text = removalText(containers.filter(({ containerId }) => containerIds.has(containerId)));
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
