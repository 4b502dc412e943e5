/** Builds the network plugin `kubenet`. */
import {
  createCniParts,
  createPluginOn,
  type CniPartsOptions,
  type CniParts,
} from "../cni/create-cni-plugin.js";
import type { CniTimeouts } from "../cni/cni-plugin.js";
import { systemClock, type Clock } from "../../lib/time.js";
import { PluginVersions } from "../libcni/versions.js";
import { LegacyHostPorts } from "../hostport/legacy-host-ports.js";
import { Conntrack } from "../hostport/conntrack.js";
import type { RunCommand } from "../iptables/run-command.js";
import { DedupRules } from "./ebtables.js";
import { KubenetNetworkPlugin } from "./kubenet-plugin.js";
import type { HairpinMode } from "./kubenet-conflist.js";
import { KubenetSource } from "./kubenet-source.js";
import { KubenetNode } from "./kubenet-node.js";
import { freeLeakedAddresses, type ReadKnownSandboxes } from "./orphaned-addresses.js";
import { LegacyShaping } from "./legacy-shaping.js";
import { NodeRules } from "./node-rules.js";

export interface KubenetPluginOptions extends CniPartsOptions {
  readonly reason: string;
  /** Empty: set by UpdateRuntimeConfig. */
  readonly podCidrs: readonly string[];
  /** 0: the smallest MTU of the node's interfaces. */
  readonly mtuBytes: number;
  readonly hairpinMode: HairpinMode;
  readonly nonMasqueradeCidrs: readonly string[];
  /** Without it, leaked addresses stay. */
  readonly knownSandboxes?: ReadKnownSandboxes;
  readonly addressDir?: string;
  readonly timeouts?: Partial<CniTimeouts>;
  readonly run?: RunCommand;
  readonly clock?: Clock;
}

/** While the pool is full, each pod that waits would search again. */
const freeAtMostEveryMs = 60_000;

export function createKubenetPlugin(
  options: KubenetPluginOptions,
  parts: CniParts = createCniParts(options),
): KubenetNetworkPlugin {
  const { log, run = parts.run, clock = systemClock, nonMasqueradeCidrs, hairpinMode, mtuBytes } = options;
  const { iptables } = parts;
  const versions = new PluginVersions(parts.invoker);
  const source = new KubenetSource({ invoker: parts.invoker, versions, hairpinMode, log, clock });
  // The pod CIDR is in the list; plugins get it from there.
  const { podCidrs: _podCidrs, ...cniOptions } = options;
  const pods = createPluginOn(source, "kubenet", cniOptions, parts);
  const conntrack = new Conntrack(log, run);
  const families = (): ReadonlySet<"ipv4" | "ipv6"> => new Set(source.subnets.map(({ family }) => family));
  const rules = new NodeRules({ iptables, nonMasqueradeCidrs, families, log, clock });
  const legacyHostPorts = new LegacyHostPorts({ iptables, conntrack, log });
  return new KubenetNetworkPlugin({
    reason: options.reason,
    hairpinMode,
    podCidrs: options.podCidrs,
    source,
    pods,
    rules,
    legacyHostPorts,
    legacyShaping: new LegacyShaping(log, run),
    conntrack,
    run,
    log,
    node: new KubenetNode({ source, rules, legacyHostPorts, mtuBytes, run, log }),
    dedup: new DedupRules(log, run),
    freeAddresses: addressFreer(options, parts, pods, clock),
  });
}

function addressFreer(
  { knownSandboxes, log, addressDir }: KubenetPluginOptions,
  tools: CniParts,
  pods: Parameters<typeof freeLeakedAddresses>[0]["pods"],
  clock: Clock,
): (settingUp: ReadonlySet<string>, signal: AbortSignal) => Promise<boolean> {
  let last: number | undefined;
  return async (settingUp, signal) => {
    if (knownSandboxes === undefined || (last !== undefined && clock.now() - last < freeAtMostEveryMs))
      return false;
    last = clock.now();
    const where = addressDir === undefined ? {} : { addressDir };
    const options = { pods, tools, knownSandboxes, settingUp, log, ...where };
    return (await freeLeakedAddresses(options, signal)).length > 0;
  };
}
