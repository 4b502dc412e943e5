/** Chooses the network plugin of this node, and builds it. */
import { stat } from "node:fs/promises";
import { orAbort } from "../lib/abort.js";
import { unreachable } from "../lib/errors.js";
import type { Flusher } from "../lib/files/flusher.js";
import type { Logger } from "../lib/log.js";
import type { NetworkPlugin } from "../shim/ports/network-plugin.js";
import type { Observer } from "../shim/ports/observer.js";
import { ConfigurationDirectory } from "./cni/configuration-directory.js";
import { AutoNetworkPlugin } from "./auto-plugin.js";
import type { CniNetworkPlugin } from "./cni/cni-plugin.js";
import {
  createCniParts,
  createPluginOn,
  type CniParts,
  type CniPartsOptions,
} from "./cni/create-cni-plugin.js";
import type { NetworkList } from "./libcni/configuration.js";
import { HostPortClaims, type ReadOwners } from "./hostport/host-port-claims.js";
import { createKubenetPlugin } from "./kubenet/create-kubenet-plugin.js";
import type { IptablesMode } from "./iptables/detect.js";
import { commandRunner } from "./iptables/run-command.js";
import type { StartProgram } from "../shim/native/start-program.js";
import { HostIptables } from "./iptables/host-iptables.js";
import type { HairpinMode } from "./kubenet/kubenet-conflist.js";
import type { KubenetNetworkPlugin } from "./kubenet/kubenet-plugin.js";
import type { ReadKnownSandboxes } from "./kubenet/orphaned-addresses.js";
import { OrphanedNetworks } from "./orphans/orphaned-networks.js";
import { LockedNetworkPlugin, type LockedPluginOptions } from "./locked-plugin.js";
import { NoopNetworkPlugin } from "./noop/noop-plugin.js";
import { PodCidrs, type PodCidrsOptions } from "./pod-cidrs.js";
import { PodMakers, type FormerPlugin } from "./pod-makers.js";

/** Values of the network flags, and callbacks of the plugins into the rest of the program. */
export interface NetworkSelection {
  /** Value of `--network-plugin`. */
  readonly name: "auto" | "no-op" | "cni" | "kubenet";
  readonly cniConfDir: string;
  readonly cniBinDirs: readonly string[];
  readonly cniCacheDir: string;
  readonly podCidrs: Omit<PodCidrsOptions, "log">;
  /** 0: found out. */
  readonly networkPluginMtuBytes: number;
  readonly hairpinMode: HairpinMode;
  readonly nonMasqueradeCidrs: readonly string[];
  readonly iptablesMode: IptablesMode;
  /** Whether a pod has a network of the plugin cni that was not torn down yet. */
  readonly podsOfCni: boolean;
  /** Whether a pod has one of Docker's bridge, by no-op. */
  readonly hasPodsOfNoop: () => boolean;
  /** Host ports of pods that were set up before this run of the program. */
  readonly hostPortOwners: ReadOwners;
  /** All sandboxes, to find network resources without a sandbox. */
  readonly knownSandboxes: ReadKnownSandboxes;
  /** Flushes the cache of results. */
  readonly flusher: Flusher;
  /** Starts CNI plugins, iptables and the like. */
  readonly start: StartProgram;
  /** Where the host-local plugin keeps its addresses; its default when not given. */
  readonly addressDir?: string;
  /** Called for operations on pods and for runs of CNI plugins. */
  readonly observer?: Pick<Observer, "networkOperationEnded" | "pluginRunEnded"> | undefined;
}

export interface SelectedNetwork {
  readonly plugin: NetworkPlugin;
  /** Undefined with no-op. */
  readonly orphans: OrphanedNetworks | undefined;
}

type PluginName = Exclude<NetworkSelection["name"], "auto">;

interface Choice {
  readonly name: PluginName;
  readonly reason: string;
}

/**
 * The plugin that the flag names, or the one that suits this node, with the reason for the choice. That is made once, but for a
 * node without CNI and without pods: when the configuration directory is removed later, the network is not ready, and pods
 * never get Docker's bridge instead. The other plugins are built to release the pods that they have set up.
 */
export async function selectNetworkPlugin(
  selection: NetworkSelection,
  log: Logger,
): Promise<SelectedNetwork> {
  const { name, reason } = await choose(selection);
  const options = { ...partsOptions(selection, log), reason };
  const parts = createCniParts(options);
  const podCidrs = new PodCidrs({ ...selection.podCidrs, log });
  const cniReason = name === "no-op" ? existing(selection) : reason;
  const cni = cniPlugin(selection, { ...options, reason: cniReason }, parts, podCidrs.current);
  const kubenet = kubenetPlugin(selection, options, parts, podCidrs.current);
  const formers = [cni.former, kubenet.former].filter((former) => former.name !== name);
  const makers = new PodMakers({ ...parts, formers, log, addressDir: selection.addressDir });
  const { observer } = selection;
  const shared: LockedPluginOptions = {
    makers,
    ...(observer === undefined ? {} : { observe: (ended) => observer.networkOperationEnded(ended) }),
  };
  const claims = new HostPortClaims(selection.hostPortOwners);
  if (name === "no-op") {
    const noop = new NoopNetworkPlugin({ reason, log, run: parts.run });
    if (selection.name === "no-op")
      return { plugin: new LockedNetworkPlugin(noop, shared), orphans: undefined };
    const auto = new AutoNetworkPlugin({ ...selection, noop, cni: cni.plugin, log });
    // Those of a network that it gets later are found at the next start.
    return { plugin: new LockedNetworkPlugin(auto, { ...shared, podCidrs, claims }), orphans: undefined };
  }
  const { plugin } = name === "cni" ? cni : kubenet;
  const orphans = new OrphanedNetworks(parts, () => networksOf(plugin));
  return { plugin: new LockedNetworkPlugin(plugin, { ...shared, podCidrs, claims }), orphans };
}

function existing({ cniConfDir }: NetworkSelection): string {
  return `"${cniConfDir}" exists`;
}

async function choose(selection: NetworkSelection): Promise<Choice> {
  const { name, cniConfDir, podsOfCni } = selection;
  const flag = `--network-plugin=${name}`;
  switch (name) {
    case "no-op":
    case "cni":
    case "kubenet":
      return { name, reason: flag };
    case "auto":
      if (await isDirectory(cniConfDir)) return { name: "cni", reason: existing(selection) };
      if (podsOfCni) return { name: "cni", reason: "pods of this node have networks of CNI" };
      return { name: "no-op", reason: `"${cniConfDir}" does not exist, so there is no CNI` };
    default:
      return unreachable(name);
  }
}

/** For `createCniParts`. */
function partsOptions(selection: NetworkSelection, log: Logger): CniPartsOptions {
  const { cniBinDirs: binDirs, cniCacheDir: cacheDir, iptablesMode: mode, flusher, observer } = selection;
  const { start } = selection;
  const iptables = new HostIptables({ mode, log, run: commandRunner(start) });
  const options = { log, binDirs, cacheDir, iptables, flusher, start };
  return observer === undefined ? options : { ...options, observe: (run) => observer.pluginRunEnded(run) };
}

type PluginOptions = CniPartsOptions & { readonly reason: string };

/** A plugin, and the same one without its start. */
interface Built<T extends NetworkPlugin> {
  readonly plugin: T;
  readonly former: FormerPlugin;
}

function cniPlugin(
  { cniConfDir: directory }: NetworkSelection,
  options: PluginOptions,
  parts: CniParts,
  podCidrs: readonly string[],
): Built<CniNetworkPlugin> {
  const source = new ConfigurationDirectory({ directory, invoker: parts.invoker, log: options.log });
  const plugin = createPluginOn(source, "cni", { ...options, podCidrs }, parts);
  return { plugin, former: formerOf(plugin, (signal) => orAbort(source.refresh(), signal)) };
}

/** For DEL any range will do: the addresses are found by the id of the sandbox. */
const anyRange = "192.0.2.0/24";

function kubenetPlugin(
  selection: NetworkSelection,
  options: PluginOptions,
  parts: CniParts,
  podCidrs: readonly string[],
): Built<KubenetNetworkPlugin> {
  const { networkPluginMtuBytes: mtuBytes, hairpinMode, nonMasqueradeCidrs, knownSandboxes } = selection;
  const own = { podCidrs, mtuBytes, hairpinMode, nonMasqueradeCidrs, knownSandboxes };
  const plugin = createKubenetPlugin({ ...options, ...own }, parts);
  const subnets = podCidrs.length > 0 ? podCidrs : [anyRange];
  return { plugin, former: formerOf(plugin, (signal) => orAbort(plugin.podCidrChanged(subnets), signal)) };
}

function formerOf(plugin: NetworkPlugin, findList: FormerPlugin["findList"]): FormerPlugin {
  return {
    name: plugin.name,
    findList,
    tearDownPod: (request, signal) => plugin.tearDownPod(request, signal),
    podAddresses: (question) => plugin.podAddresses(question),
  };
}

function networksOf(plugin: Pick<CniNetworkPlugin, "network">): Promise<readonly NetworkList[]> {
  const network = plugin.network();
  return Promise.resolve(network === undefined ? [] : [network]);
}

async function isDirectory(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  return found?.isDirectory() === true;
}
