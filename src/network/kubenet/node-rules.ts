/** iptables rules for the whole node: masquerading, and forwarding where the FORWARD policy is DROP. */
import { isIP } from "node:net";
import { isKind, messageOf } from "../../lib/errors.js";
import { withDeadline } from "../../lib/abort.js";
import type { Logger } from "../../lib/log.js";
import { SingleFlight } from "../../lib/sync/single-flight.js";
import { systemClock, type Clock } from "../../lib/time.js";
import type { HostIptables } from "../iptables/host-iptables.js";
import { addressFamilies, type AddressFamily, type Iptables, type Rule } from "../iptables/iptables.js";
import { kubenetBridge } from "./kubenet-conflist.js";

export interface NodeRulesOptions {
  readonly iptables: HostIptables;
  /** At most one of each family. */
  readonly nonMasqueradeCidrs: readonly string[];
  /** Address families of the known pod subnets. */
  readonly families: () => ReadonlySet<AddressFamily>;
  readonly log: Pick<Logger, "info" | "warn">;
  readonly clock?: Clock;
}

const checkTimeoutMs = 60_000;
/** firewalld and other programs remove rules when they restart. */
const checkEveryMs = 60_000;
const retryAfterMs = 5000;
/** For this long FORWARD is not checked again. */
const forwardingCountsMs = 10_000;

/** dockershim's text, so that its rule is found. Undefined for a CIDR of all addresses. */
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
 * Docker sets the policy of FORWARD to DROP, which cuts pods off from other nodes and from clients of host
 * ports. The firewall plugin accepts only replies. These rules are appended: they override no other rule.
 */
export const forwardRules: readonly Rule[] = ["-i", "-o"].map((direction) => ({
  table: "filter",
  chain: "FORWARD",
  words: [direction, kubenetBridge, "-m", "comment", "--comment", "kubenet: pod traffic", "-j", "ACCEPT"],
}));

export class NodeRules {
  readonly #clock: Clock;
  readonly #forwarding = new SingleFlight<boolean>();
  #problem: string | undefined;
  #running: AbortController | undefined;
  /** The last check of FORWARD, for these families. */
  #looked: { readonly families: string; readonly drops: boolean; readonly at: number } | undefined;
  #cancel: () => void = () => undefined;

  constructor(private readonly options: NodeRulesOptions) {
    this.#clock = options.clock ?? systemClock;
  }

  /** Writes the rules, and checks them until `stop`. A failure becomes `problem`, and is tried again. */
  async start(signal: AbortSignal): Promise<void> {
    this.stop();
    this.#looked = undefined;
    const running = (this.#running = new AbortController());
    await this.#keep(AbortSignal.any([signal, running.signal]), running.signal);
  }

  stop(): void {
    this.#running?.abort();
    this.#cancel();
  }

  /** Why pods cannot reach addresses outside of the cluster. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /**
   * Whether the policy of FORWARD is DROP; the rules for pods are there when this returns. Pods that are set
   * up at the same time, or within the next seconds, share one check: it is slow.
   */
  async ensureForwarding(signal: AbortSignal): Promise<boolean> {
    const families = addressFamilies.filter((each) => this.options.families().has(each));
    const key = families.join();
    const last = this.#looked;
    if (last?.families === key && this.#clock.now() - last.at < forwardingCountsMs) return last.drops;
    return this.#forwarding.run(key, signal, async (shared) => {
      const at = this.#clock.now();
      const drops = await this.#ensureForwarding(families, shared);
      this.#looked = { families: key, drops, at };
      return drops;
    });
  }

  async #ensureForwarding(families: readonly AddressFamily[], signal: AbortSignal): Promise<boolean> {
    const { log } = this.options;
    const iptables = await this.options.iptables.chosen(signal);
    let drops = false;
    for (const family of families) {
      if ((await policyOf(iptables, family, signal)) !== "DROP") continue;
      drops = true;
      for (const rule of forwardRules) {
        if (await iptables.ensureRule(family, rule, signal)) {
          log.info(
            { family, rule: rule.words.join(" ") },
            "FORWARD policy is DROP, added a rule for pod traffic",
          );
        }
      }
    }
    return drops;
  }

  /** `running` aborts with `stop`, `signal` at the same time or earlier. */
  async #keep(signal: AbortSignal, running: AbortSignal): Promise<void> {
    const before = this.#problem;
    try {
      await withDeadline(signal, checkTimeoutMs, "check the rules of kubenet", async (own) => {
        this.#looked = undefined;
        const { nonMasqueradeCidrs } = this.options;
        await inTurn([
          ...nonMasqueradeCidrs.map((cidr) => () => this.#ensureMasquerade(cidr, own)),
          () => this.ensureForwarding(own),
        ]);
      });
      this.#problem = undefined;
    } catch (error) {
      if (running.aborted) return;
      this.#problem = `kubenet cannot write its rules: ${messageOf(error)}`;
      if (this.#problem !== before)
        this.options.log.warn({ err: messageOf(error) }, "cannot write the iptables rules of kubenet");
    }
    if (running.aborted) return;
    const pauseMs = this.#problem === undefined ? checkEveryMs : retryAfterMs;
    this.#cancel = this.#clock.after(pauseMs, () => void this.#keep(running, running));
  }

  async #ensureMasquerade(cidr: string, signal: AbortSignal): Promise<void> {
    const wanted = masqueradeRule(cidr);
    if (wanted === undefined) return;
    const iptables = await this.options.iptables.chosen(signal);
    if (await iptables.ensureRule(wanted.family, wanted.rule, signal)) {
      const { family } = wanted;
      this.options.log.info({ family }, "added the masquerade rule for traffic that leaves the cluster");
    }
  }
}

/** Does all, also when one fails: what one address family lacks is not the other's fault. Throws the first error. */
async function inTurn(steps: readonly (() => Promise<unknown>)[]): Promise<void> {
  const errors: unknown[] = [];
  for (const step of steps) await step().catch((error: unknown) => errors.push(error));
  if (errors.length > 0) throw errors[0];
}

async function policyOf(iptables: Iptables, family: AddressFamily, signal: AbortSignal): Promise<string> {
  try {
    return await iptables.policy(family, "FORWARD", signal);
  } catch (error) {
    // A kernel without a packet filter for IPv6 drops nothing.
    if (family === "ipv6" && !signal.aborted && isKind(error, "notFound", "unknown")) return "ACCEPT";
    throw error;
  }
}
