/**
 * On a promiscuous bridge a packet between a pod and its gateway arrives twice: routed, and flooded. These
 * rules let only the gateway's own packets pass from the address of the bridge.
 */
import type { Logger } from "../../lib/log.js";
import { messageOf } from "../../lib/errors.js";
import { KeyedMutex } from "../../lib/sync/keyed-mutex.js";
import { SingleFlight } from "../../lib/sync/single-flight.js";
import { systemClock, type Clock } from "../../lib/time.js";
import { outputOf, runCommand, type RunCommand } from "../iptables/run-command.js";
import { kubenetBridge } from "./kubenet-conflist.js";
import { readLinks } from "./host-links.js";
import type { PodSubnet } from "../pod-cidrs.js";

const chain = "KUBE-DEDUP";
const table = ["-t", "filter"] as const;
/** For this long the rules are not checked again. firewalld and `ebtables -F` remove rules. */
const appliedCountsMs = 10_000;

type DedupRuleWords = readonly (readonly string[])[];

/** Rules of the chain in their order: packets of the gateways are accepted, then all others dropped. */
export function dedupRules(macAddress: string, subnets: readonly PodSubnet[]): DedupRuleWords {
  const rule = ({ family }: PodSubnet, source: string, target: string): readonly string[] => {
    const [protocol, flag] = family === "ipv4" ? ["IPv4", "--ip-src"] : ["IPv6", "--ip6-src"];
    return ["-p", protocol, "-s", macAddress, "-o", "veth+", flag, source, "-j", target];
  };
  return [
    ...subnets.map((subnet) => rule(subnet, subnet.gateway, "ACCEPT")),
    ...subnets.map((subnet) => rule(subnet, subnet.cidr, "DROP")),
  ];
}

interface AppliedRules {
  /** The rules as text. */
  readonly wanted: string;
  /** How this version of ebtables lists them. */
  readonly listing: string | undefined;
  readonly at: number;
}

export class DedupRules {
  /** Pods that are set up at the same time share one check. */
  readonly #flights = new SingleFlight<void>();
  /** Checks for other rules, such as for a new address of the bridge, wait. */
  readonly #locks = new KeyedMutex();
  #applied: AppliedRules | undefined;

  constructor(
    private readonly log: Pick<Logger, "info" | "warn">,
    private readonly run: RunCommand = runCommand,
    private readonly clock: Clock = systemClock,
  ) {}

  /** After each set-up, for the bridge gets its address with its first port. Best effort. */
  async ensure(subnets: readonly PodSubnet[], signal: AbortSignal): Promise<void> {
    try {
      const bridge = (await readLinks(this.run, signal)).find(({ name }) => name === kubenetBridge);
      if (bridge === undefined) return;
      const rules = dedupRules(bridge.macAddress, subnets);
      const wanted = JSON.stringify(rules);
      await this.#flights.run(wanted, signal, (shared) =>
        this.#locks.run(chain, shared, () => this.#ensure(rules, wanted, shared)),
      );
    } catch (error) {
      signal.throwIfAborted();
      this.log.warn({ err: messageOf(error) }, "cannot write the ebtables rules against duplicate packets");
    }
  }

  /** Compares listings with each other only, so nothing depends on how a version of ebtables prints rules. */
  async #ensure(rules: DedupRuleWords, wanted: string, signal: AbortSignal): Promise<void> {
    const at = this.clock.now();
    const last = this.#applied?.wanted === wanted ? this.#applied : undefined;
    if (last !== undefined && at - last.at < appliedCountsMs) return;
    // A failure or an abort may leave a part of the rules.
    this.#applied = undefined;
    let listing = await this.#listing(signal);
    if (listing === undefined || listing !== last?.listing) {
      await this.#write(rules, listing !== undefined, signal);
      listing = await this.#listing(signal);
    }
    await this.#ensureOneJump(signal);
    this.#applied = { wanted, listing, at };
  }

  async #write(rules: DedupRuleWords, isMade: boolean, signal: AbortSignal): Promise<void> {
    await this.#ebtables(signal, ...(isMade ? ["-F", chain] : ["-N", chain]));
    for (const rule of rules) await this.#ebtables(signal, "-A", chain, ...rule);
    this.log.info({ chain, rules: rules.length }, "wrote the ebtables rules against duplicate packets");
  }

  async #ensureOneJump(signal: AbortSignal): Promise<void> {
    const output = await this.#ebtables(signal, "-L", "OUTPUT");
    const jumps = output.split("\n").filter((line) => line.trim() === `-j ${chain}`).length;
    if (jumps === 0) await this.#ebtables(signal, "-A", "OUTPUT", "-j", chain);
    for (let more = jumps; more > 1; more -= 1) await this.#ebtables(signal, "-D", "OUTPUT", "-j", chain);
  }

  /** The chain as ebtables prints it, undefined when there is none. */
  async #listing(signal: AbortSignal): Promise<string | undefined> {
    const { exitCode, stdout } = await this.run("ebtables", [...table, "-L", chain], { signal });
    return exitCode === 0 ? stdout : undefined;
  }

  #ebtables(signal: AbortSignal, ...words: readonly string[]): Promise<string> {
    return outputOf(this.run, "ebtables", [...table, ...words], { signal });
  }
}
