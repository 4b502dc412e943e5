/**
 * A promiscuous bridge sees every packet between a pod and its gateway twice: once from the bridge's own routing and
 * once flooded. These rules let only packets of the gateway itself pass from the bridge's address to pods.
 */
import type { Logger } from "../../shim/base/log.js";
import { messageOf } from "../../shim/base/errors.js";
import { outputOf, runCommand, type RunCommand } from "../iptables/run-command.js";
import { kubenetBridge } from "./kubenet-list.js";
import { readLinks } from "./mtu.js";
import type { PodSubnet } from "./pod-subnets.js";

const chain = "KUBE-DEDUP";
const table = ["-t", "filter"] as const;

/** Rules of the chain in their order: the gateways first, then what is dropped. */
export function dedupRules(
  macAddress: string,
  subnets: readonly PodSubnet[],
): readonly (readonly string[])[] {
  const rule = ({ family }: PodSubnet, source: string, target: string): readonly string[] => {
    const [protocol, flag] = family === "ipv4" ? ["IPv4", "--ip-src"] : ["IPv6", "--ip6-src"];
    return ["-p", protocol, "-s", macAddress, "-o", "veth+", flag, source, "-j", target];
  };
  return [
    ...subnets.map((subnet) => rule(subnet, subnet.gateway, "ACCEPT")),
    ...subnets.map((subnet) => rule(subnet, subnet.cidr, "DROP")),
  ];
}

export class DedupRules {
  #applied: string | undefined;

  constructor(
    private readonly log: Pick<Logger, "info" | "warn">,
    private readonly run: RunCommand = runCommand,
  ) {}

  /**
   * To be called after each set-up, for the bridge gets its address with its first port. Writes only when something has
   * changed, and then the whole chain, so nothing depends on how a version of ebtables prints rules. Best effort.
   */
  async ensure(subnets: readonly PodSubnet[], signal: AbortSignal): Promise<void> {
    try {
      const bridge = (await readLinks(this.run, signal)).find(({ name }) => name === kubenetBridge);
      if (bridge === undefined) return;
      const rules = dedupRules(bridge.macAddress, subnets);
      const wanted = JSON.stringify(rules);
      if (wanted === this.#applied) return;
      await this.#write(rules, signal);
      this.#applied = wanted;
    } catch (error) {
      signal.throwIfAborted();
      this.log.warn({ err: messageOf(error) }, "cannot keep the promiscuous bridge from doubling packets");
    }
  }

  async #write(rules: readonly (readonly string[])[], signal: AbortSignal): Promise<void> {
    const ebtables = (...words: readonly string[]): Promise<string> =>
      outputOf(this.run, "ebtables", [...table, ...words], { signal });
    const made = await ebtables("-L", chain).then(
      () => true,
      () => false,
    );
    await ebtables(...(made ? ["-F", chain] : ["-N", chain]));
    for (const rule of rules) await ebtables("-A", chain, ...rule);
    const output = await ebtables("-L", "OUTPUT");
    if (!output.split("\n").some((line) => line.trim() === `-j ${chain}`)) {
      await ebtables("-A", "OUTPUT", "-j", chain);
    }
    this.log.info({ chain, rules: rules.length }, "wrote the rules against doubled packets");
  }
}
