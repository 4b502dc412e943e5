/**
 * Rules of CNI plugins in the nat table. The bridge plugin (`ipMasq`) and portmap put the container's id into a
 * comment, and give each container chains of its own.
 */
import { createHash } from "node:crypto";

/** What of one container stands in an `iptables-save -t nat` text. */
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

/** Everything that names a container, one element per container; and the plugins' chains that nothing leads to. */
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

/** Text for `iptables-restore --noflush` that takes away rules and chains; undefined when there is nothing to take. */
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
