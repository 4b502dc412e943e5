/** The input of `iptables-restore --noflush` that takes host port chains away. */
import { targetOf, type SavedTable } from "../iptables/saved-table.js";
import { isBaseRule } from "./legacy-chains.js";
import { baseChain, chainPrefix } from "./chain-name.js";

/**
 * Removes the chains `targets` and every rule that leads to them; with the last chain of the table go the base chain
 * and the rules that lead there, for they keep kube-proxy from cleaning up. Undefined when nothing is to be removed.
 *
 * Rules are deleted one by one, as they were printed. The ancestors wrote the whole of their chains anew, which undid
 * what another program had added meanwhile; here a table that has changed is refused as a whole and can be read again.
 */
export function removalText(table: SavedTable, targets: ReadonlySet<string>): string | undefined {
  const chains = table.chains.filter((chain) => targets.has(chain));
  const jumps = table.rules.filter((rule) => !targets.has(rule.chain) && targets.has(targetOf(rule) ?? ""));
  const others = table.chains.some((chain) => chain.startsWith(chainPrefix) && !targets.has(chain));
  const left = table.rules.some((rule) => rule.chain === baseChain && !jumps.includes(rule));
  const base = others || left || !table.chains.includes(baseChain) ? [] : [baseChain];
  const baseRules = base.length === 0 ? [] : table.rules.filter(isBaseRule);
  if (chains.length + base.length === 0) return undefined;
  const lines = [
    "*nat",
    ...[...jumps, ...baseRules].map(({ chain, text }) => `-D ${chain} ${text}`),
    ...chains.map((chain) => `-F ${chain}`),
    ...[...chains, ...base].map((chain) => `-X ${chain}`),
    "COMMIT",
  ];
  return `${lines.join("\n")}\n`;
}
