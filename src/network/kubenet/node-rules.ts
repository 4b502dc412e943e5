/** Rules for the whole node: masquerading, and the way through a FORWARD chain that drops. */
import { isIP } from "node:net";
import type { Logger } from "../../shim/base/log.js";
import { addressFamilies, type AddressFamily, type Iptables, type Rule } from "../iptables/iptables.js";
import { kubenetBridge } from "./kubenet-list.js";

export interface NodeRulesOptions {
  readonly iptables: Iptables;
  readonly nonMasqueradeCidr: string;
  readonly log: Pick<Logger, "info" | "warn">;
}

/**
 * Traffic of pods, and of the node, to outside of the CIDR leaves with the node's address. The text is dockershim's, so
 * that its rule is found and not doubled. Undefined for the CIDRs that mean everything: nothing is outside.
 */
export function masqueradeRule(
  nonMasqueradeCidr: string,
): { readonly family: AddressFamily; readonly rule: Rule } | undefined {
  const [address = "", length] = nonMasqueradeCidr.split("/");
  if (Number(length) === 0) return undefined;
  const comment = "kubenet: SNAT for outbound traffic from cluster";
  const words = [
    ...["-m", "comment", "--comment", comment],
    ...["-m", "addrtype", "!", "--dst-type", "LOCAL"],
    ...["!", "-d", nonMasqueradeCidr, "-j", "MASQUERADE"],
  ];
  return {
    family: isIP(address) === 6 ? "ipv6" : "ipv4",
    rule: { table: "nat", chain: "POSTROUTING", words },
  };
}

/**
 * Docker sets the policy of FORWARD to DROP, which cuts pods off from other nodes and from callers of host ports. The
 * firewall plugin lets only answers in. These are appended: they stand against the policy and not against rules of others.
 */
export const forwardRules: readonly Rule[] = ["-i", "-o"].map((direction) => ({
  table: "filter",
  chain: "FORWARD",
  words: [direction, kubenetBridge, "-m", "comment", "--comment", "kubenet: pod traffic", "-j", "ACCEPT"],
}));

export class NodeRules {
  constructor(private readonly options: NodeRulesOptions) {}

  /** Appends the masquerade rule when it is missing; firewalld and others wipe it out now and then. */
  async ensureMasquerade(signal: AbortSignal): Promise<void> {
    const wanted = masqueradeRule(this.options.nonMasqueradeCidr);
    if (wanted === undefined) return;
    if (await this.options.iptables.ensureRule(wanted.family, wanted.rule, signal)) {
      this.options.log.info({ family: wanted.family }, "added the masquerade rule for traffic to outside of the cluster");
    }
  }

  /** Whether FORWARD drops what no rule accepts. Then the pods' rules are there when this returns. */
  async ensureForwarding(families: ReadonlySet<AddressFamily>, signal: AbortSignal): Promise<boolean> {
    let drops = false;
    for (const family of addressFamilies.filter((each) => families.has(each))) {
      const { iptables, log } = this.options;
      if ((await iptables.policy(family, "FORWARD", signal)) !== "DROP") continue;
      drops = true;
      for (const rule of forwardRules) {
        if (await iptables.ensureRule(family, rule, signal)) {
          log.info({ family, rule: rule.words.join(" ") }, "the FORWARD policy is DROP: added a rule for pod traffic");
        }
      }
    }
    return drops;
  }
}
