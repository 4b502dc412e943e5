/** Puts kubenet together. */
import {
  createCniParts,
  createPluginOn,
  type CniEngineOptions,
  type CniParts,
} from "../cni/create-cni-plugin.js";
import type { CniTimeouts } from "../cni/cni-plugin.js";
import { systemClock, type Clock } from "../cni/clock.js";
import { PluginVersions } from "../cni/plugin-versions.js";
import { AncestorHostPorts } from "../hostport/ancestor-host-ports.js";
import { Conntrack } from "../hostport/conntrack.js";
import { HostPortClaims, type ReadOwners } from "../hostport/host-port-claims.js";
import { detectIptables, type IptablesMode } from "../iptables/detect.js";
import { Iptables } from "../iptables/iptables.js";
import { runCommand, type RunCommand } from "../iptables/run-command.js";
import { DedupRules } from "./ebtables.js";
import { KubenetNetworkPlugin } from "./kubenet-plugin.js";
import type { HairpinMode } from "./kubenet-list.js";
import { KubenetSource } from "./kubenet-source.js";
import { freeLeakedAddresses, type ReadLivingIds } from "./leaked-addresses.js";
import { NodeRules } from "./node-rules.js";

export interface KubenetPluginOptions extends CniEngineOptions {
  readonly reason: string;
  /** Empty: the kubelet tells. */
  readonly podCidrs: readonly string[];
  /** 0: found out. */
  readonly mtuBytes: number;
  readonly hairpinMode: HairpinMode;
  readonly nonMasqueradeCidr: string;
  readonly iptablesMode?: IptablesMode;
  /** Without it, only host ports of this run of the program are known to be taken. */
  readonly hostPortOwners?: ReadOwners;
  /** Without it, leaked addresses stay. */
  readonly livingIds?: ReadLivingIds;
  readonly addressDir?: string;
  readonly timeouts?: Partial<CniTimeouts>;
  readonly run?: RunCommand;
  readonly clock?: Clock;
}

/** A full pool would make every waiting pod look. */
const freeAtMostEveryMs = 60_000;

/** Throws `unavailable` when the node has no iptables. */
export async function createKubenetPlugin(
  options: KubenetPluginOptions,
  signal: AbortSignal,
  parts: CniParts = createCniParts(options),
): Promise<KubenetNetworkPlugin> {
  const { log, run = runCommand, clock = systemClock, iptablesMode = "auto", nonMasqueradeCidr } = options;
  const tools = await detectIptables(iptablesMode, signal, run);
  log.info(
    { version: tools.version.text, backend: tools.version.backend, reason: tools.reason },
    "using iptables",
  );
  if (tools.differsFromDefault) {
    log.warn(
      { backend: tools.version.backend },
      "the CNI plugins call plain iptables, which is of the other backend",
    );
  }
  const iptables = new Iptables(tools, { run });
  const { hairpinMode } = options;
  const versions = new PluginVersions(parts.invoker);
  const source = new KubenetSource({ invoker: parts.invoker, versions, hairpinMode, log, clock });
  // The pod CIDR is in the list; plugins get it from there.
  const { podCidrs: _podCidrs, ...cniOptions } = options;
  const pods = createPluginOn(source, "kubenet", cniOptions, parts);
  const conntrack = new Conntrack(log, run);
  const families = (): ReadonlySet<"ipv4" | "ipv6"> => new Set(source.subnets.map(({ family }) => family));
  return new KubenetNetworkPlugin({
    ...{ reason: options.reason, hairpinMode, mtuBytes: options.mtuBytes, podCidrs: options.podCidrs },
    ...{ source, pods, conntrack, run, log },
    rules: new NodeRules({ iptables, nonMasqueradeCidr, families, log, clock }),
    dedup: new DedupRules(log, run),
    ancestors: new AncestorHostPorts({ iptables, conntrack, log }),
    claims: new HostPortClaims(options.hostPortOwners),
    freeAddresses: addressFreer(options, parts, pods, clock),
  });
}

function addressFreer(
  { livingIds, log, addressDir }: KubenetPluginOptions,
  tools: CniParts,
  pods: Parameters<typeof freeLeakedAddresses>[0]["pods"],
  clock: Clock,
): (signal: AbortSignal) => Promise<boolean> {
  let last: number | undefined;
  return async (signal) => {
    if (livingIds === undefined || (last !== undefined && clock.now() - last < freeAtMostEveryMs))
      return false;
    last = clock.now();
    const where = addressDir === undefined ? {} : { addressDir };
    return (await freeLeakedAddresses({ pods, tools, livingIds, log, ...where }, signal)).length > 0;
  };
}
