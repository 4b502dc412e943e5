/** Chooses the network plugin of this node, and builds it. */
import { stat } from "node:fs/promises";
import { unreachable } from "../shim/lib/errors.js";
import type { Flusher } from "../shim/lib/files/flusher.js";
import type { Logger } from "../shim/lib/log.js";
import type { NetworkPlugin } from "../shim/ports/network-plugin.js";
import type { Observer } from "../shim/ports/observer.js";
import { createCniParts, createCniPlugin } from "./cni/create-cni-plugin.js";
import type { CniNetworkPlugin } from "./cni/cni-plugin.js";
import type { NetworkList } from "./libcni/configuration.js";
import type { CniParts, CniPartsOptions } from "./cni/create-cni-plugin.js";
import { HostPortClaims, type ReadOwners } from "./hostport/host-port-claims.js";
import { createKubenetPlugin } from "./kubenet/create-kubenet-plugin.js";
import type { IptablesMode } from "./iptables/detect.js";
import { commandRunner } from "./iptables/run-command.js";
import type { StartProgram } from "./programs/start-program.js";
import { HostIptables } from "./iptables/host-iptables.js";
import type { HairpinMode } from "./kubenet/bridge-list.js";
import type { ReadKnownSandboxes } from "./kubenet/orphaned-addresses.js";
import { OrphanedNetworks } from "./orphans/orphaned-networks.js";
import { LockedNetworkPlugin, type LockedPluginOptions } from "./locked-plugin.js";
import { NoopNetworkPlugin } from "./noop/noop-plugin.js";
import { PodCidrs, type PodCidrsOptions } from "./pod-cidrs.js";

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
  readonly nonMasqueradeCidr: string;
  readonly iptablesMode: IptablesMode;
  /** Whether a pod has a network of the plugin cni that was not torn down yet. */
  readonly podsOfCni: boolean;
  /** Host ports of pods that were set up before this run of the program. */
  readonly hostPortOwners: ReadOwners;
  /** All sandboxes, to find network resources without a sandbox. */
  readonly knownSandboxes: ReadKnownSandboxes;
  /** Flushes the cache of results. */
  readonly flusher: Flusher;
  /** Starts CNI plugins, iptables and the like. */
  readonly start: StartProgram;
  /** Called for operations on pods and for runs of CNI plugins. */
  readonly observer?: Pick<Observer, "networkOperationEnded" | "pluginRunEnded"> | undefined;
}

export interface SelectedNetwork {
  readonly plugin: NetworkPlugin;
  /** Undefined with no-op. */
  readonly orphans: OrphanedNetworks | undefined;
}

/**
 * The plugin that the flag names, or the one that suits this node, with the reason for the choice. The choice
 * is made once: when the configuration directory is removed later, the network is not ready, and pods never
 * get Docker's bridge instead.
 */
export async function selectNetworkPlugin(
  selection: NetworkSelection,
  log: Logger,
): Promise<SelectedNetwork> {
  const { name, cniConfDir } = selection;
  const flag = `--network-plugin=${name}`;
  switch (name) {
    case "no-op":
      return noop(flag, selection, log);
    case "auto":
      if (await isDirectory(cniConfDir)) return cni(`"${cniConfDir}" exists`, selection, log);
      if (selection.podsOfCni) return cni("pods of this node have networks of CNI", selection, log);
      return noop(`"${cniConfDir}" does not exist, so there is no CNI`, selection, log);
    case "cni":
      return cni(flag, selection, log);
    case "kubenet":
      return kubenet(flag, selection, log);
    default:
      return unreachable(name);
  }
}

function noop(reason: string, selection: NetworkSelection, log: Logger): SelectedNetwork {
  const { plugin: former, parts } = cniPlugin(reason, selection, [], log);
  const hasAttachment = async (sandboxId: string): Promise<boolean> =>
    (await parts.cache.find(sandboxId)).entries.length > 0;
  const plugin = new NoopNetworkPlugin({
    reason,
    log,
    run: parts.run,
    previous: { hasAttachment, tearDownPod: (request, signal) => former.tearDownPod(request, signal) },
  });
  return { plugin: new LockedNetworkPlugin(plugin, observing(selection)), orphans: undefined };
}

function cni(reason: string, selection: NetworkSelection, log: Logger): SelectedNetwork {
  const podCidrs = new PodCidrs({ ...selection.podCidrs, log });
  const { plugin, parts } = cniPlugin(reason, selection, podCidrs.current, log);
  const claims = new HostPortClaims(selection.hostPortOwners);
  const orphans = new OrphanedNetworks(parts, () => networksOf(plugin));
  const locks = { podCidrs, claims, ...observing(selection) };
  return { plugin: new LockedNetworkPlugin(plugin, locks), orphans };
}

/** For `LockedNetworkPlugin`. */
function observing({ observer }: NetworkSelection): Pick<LockedPluginOptions, "observe"> {
  return observer === undefined ? {} : { observe: (ended) => observer.networkOperationEnded(ended) };
}

/** For `createCniParts`. */
function partsOptions(selection: NetworkSelection, log: Logger): CniPartsOptions {
  const { cniBinDirs: binDirs, cniCacheDir: cacheDir, iptablesMode: mode, flusher, observer } = selection;
  const { start } = selection;
  const iptables = new HostIptables({ mode, log, run: commandRunner(start) });
  const options = { log, binDirs, cacheDir, iptables, flusher, start };
  return observer === undefined ? options : { ...options, observe: (run) => observer.pluginRunEnded(run) };
}

function cniPlugin(
  reason: string,
  selection: NetworkSelection,
  podCidrs: readonly string[],
  log: Logger,
): { readonly plugin: CniNetworkPlugin; readonly parts: CniParts } {
  const options = { ...partsOptions(selection, log), reason, confDir: selection.cniConfDir, podCidrs };
  const parts = createCniParts(options);
  return { plugin: createCniPlugin(options, parts), parts };
}

function kubenet(reason: string, selection: NetworkSelection, log: Logger): SelectedNetwork {
  const { networkPluginMtuBytes: mtuBytes, hairpinMode, nonMasqueradeCidr } = selection;
  const { hostPortOwners, knownSandboxes } = selection;
  const engineOptions = { ...partsOptions(selection, log), reason };
  const parts = createCniParts(engineOptions);
  const podCidrs = new PodCidrs({ ...selection.podCidrs, log });
  const own = { podCidrs: podCidrs.current, mtuBytes, hairpinMode, nonMasqueradeCidr, knownSandboxes };
  const plugin = createKubenetPlugin({ ...engineOptions, ...own }, parts);
  const claims = new HostPortClaims(hostPortOwners);
  const orphans = new OrphanedNetworks(parts, () => networksOf(plugin));
  const locks = { podCidrs, claims, ...observing(selection) };
  return { plugin: new LockedNetworkPlugin(plugin, locks), orphans };
}

function networksOf(plugin: Pick<CniNetworkPlugin, "network">): Promise<readonly NetworkList[]> {
  const network = plugin.network();
  return Promise.resolve(network === undefined ? [] : [network]);
}

async function isDirectory(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  return found?.isDirectory() === true;
}
