/** Rules of the bridge plugin and portmap: a comment has the container's id, and chains are its own. */
import { createHash } from "node:crypto";
import { isKind } from "../../lib/errors.js";
import type { HostIptables } from "../iptables/host-iptables.js";
import { addressFamilies, type AddressFamily } from "../iptables/iptables.js";

/** Rules and chains of one container in an `iptables-save -t nat` text. */
export interface ContainerRules {
  readonly containerId: string;
  /** Rules in chains of others that lead to the container's own, as `-A POSTROUTING …`. */
  readonly rules: readonly string[];
  /** Chains of its own. */
  readonly chains: readonly string[];
}

/** In every line of the plugins: their chains, and the rules that lead to them or stand in them. */
const mark = "CNI-";
const ownChain = /^CNI-(?:DN-[0-9a-f]{21}|[0-9a-f]{24})$/;
/** As in `--comment "dnat name: \"demo\" id: \"8dbd…\""`. */
const comment = /^-A (\S+) .*--comment "(?:dnat )?name: \\"[^"\\]*\\" id: \\"([^"\\]+)\\"".* -j (\S+)$/;

/** Rules and chains by container, and chains of the plugins to which no rule leads. */
export function readNatRules(save: string): {
  readonly containers: readonly ContainerRules[];
  readonly orphanChains: readonly string[];
} {
  const found = new Map<string, { rules: string[]; chains: Set<string> }>();
  const declared = new Set<string>();
  const used = new Set<string>();
  for (const line of linesWith(save, mark)) {
    const chain = /^:(\S+) /.exec(line)?.[1];
    if (chain !== undefined && ownChain.test(chain)) declared.add(chain);
    const [, from, containerId, target] = comment.exec(line) ?? [];
    if (from === undefined || containerId === undefined || target === undefined) continue;
    const entry = found.get(containerId) ?? { rules: [], chains: new Set() };
    found.set(containerId, entry);
    // Rules inside the own chain go with it.
    if (ownChain.test(from)) entry.chains.add(from);
    else entry.rules.push(line);
    if (ownChain.test(target)) entry.chains.add(target);
  }
  for (const { chains } of found.values()) for (const chain of chains) used.add(chain);
  return {
    containers: [...found].map(([containerId, { rules, chains }]) => ({
      containerId,
      rules,
      chains: [...chains],
    })),
    orphanChains: [...declared].filter((chain) => !used.has(chain)),
  };
}

/** The lines with `wanted`. Services make the table tens of MB long, and this is done with each tear-down. */
function* linesWith(text: string, wanted: string): Generator<string, void, void> {
  for (let found = text.indexOf(wanted); found !== -1;) {
    const end = text.indexOf("\n", found);
    yield text.slice(text.lastIndexOf("\n", found) + 1, end === -1 ? text.length : end);
    if (end === -1) return;
    found = text.indexOf(wanted, end);
  }
}

/** Names of the chains that bridge and portmap give a container, by the plugins' own formula. */
export function chainNames(networkName: string, containerId: string): readonly string[] {
  const digest = createHash("sha512")
    .update(networkName + containerId)
    .digest("hex");
  return [`CNI-${digest.slice(0, 24)}`, `CNI-DN-${digest.slice(0, 21)}`];
}

/** Text for `iptables-restore --noflush` that removes rules and chains; undefined when there are none. */
export function removalText(parts: readonly Pick<ContainerRules, "rules" | "chains">[]): string | undefined {
  const rules = parts.flatMap((part) => part.rules.map((rule) => rule.replace(/^-A /, "-D ")));
  const chains = parts.flatMap((part) => part.chains);
  if (rules.length + chains.length === 0) return undefined;
  const lines = [
    "*nat",
    ...rules,
    ...chains.map((chain) => `-F ${chain}`),
    ...chains.map((chain) => `-X ${chain}`),
    "COMMIT",
  ];
  return `${lines.join("\n")}\n`;
}

/** The nat tables of one iptables backend, one per address family. */

export interface NatTable {
  /** As `iptables-save -t nat` prints it; empty where the host has no tool or table for the family. */
  save(family: AddressFamily, signal: AbortSignal): Promise<string>;
  /** Applies `text` as a whole or not at all, leaving the rest of the table. */
  restore(family: AddressFamily, text: string, signal: AbortSignal): Promise<void>;
}

/** One element per iptables backend in use: none without iptables. */
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
 * Applies the result of `textFor` to each table of the family; undefined changes nothing. Other programs may
 * change the table meanwhile, so a text that is refused is made again. Throws after the last attempt.
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
        if (attempt >= tries || signal.aborted || !isKind(error, "unknown")) throw error;
      }
    }
  }
}
