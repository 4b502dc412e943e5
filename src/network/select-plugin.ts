/** Which network plugin this node gets. */
import { stat } from "node:fs/promises";
import { unreachable } from "../shim/base/errors.js";
import type { Logger } from "../shim/base/log.js";
import type { NetworkPlugin } from "../shim/ports/network-plugin.js";
import { createCniParts, createCniPlugin } from "./cni/create-cni-plugin.js";
import type { CniNetworkPlugin } from "./cni/cni-plugin.js";
import type { CniParts } from "./cni/create-cni-plugin.js";
import { HostPortClaims, type ReadOwners } from "./hostport/host-port-claims.js";
import { createKubenetPlugin } from "./kubenet/create-kubenet-plugin.js";
import type { HairpinMode } from "./kubenet/kubenet-list.js";
import type { ReadLivingIds } from "./kubenet/leaked-addresses.js";
import { LockedNetworkPlugin } from "./locked-plugin.js";
import { NoopNetworkPlugin } from "./noop/noop-plugin.js";

/** Values of the network flags, and what the plugins ask of the rest of the program. */
export interface NetworkSelection {
  /** Value of `--network-plugin`. */
  readonly name: "auto" | "no-op" | "cni" | "kubenet";
  readonly cniConfDir: string;
  readonly cniBinDirs: readonly string[];
  readonly cniCacheDir: string;
  /** Empty: told by the kubelet, which does so only when it starts itself. */
  readonly podCidrs: readonly string[];
  /** Keeps what the kubelet told for the next start of this program. */
  readonly rememberPodCidrs: (cidrs: readonly string[]) => Promise<void>;
  /** 0: found out. */
  readonly networkPluginMtuBytes: number;
  readonly hairpinMode: HairpinMode;
  readonly nonMasqueradeCidr: string;
  /** Whether a pod has a network of the plugin cni that was not torn down yet. */
  readonly podsOfCni: boolean;
  /** Host ports of pods that were set up before this run of the program. */
  readonly hostPortOwners: ReadOwners;
  /** All containers of the engine, in any state. */
  readonly livingIds: ReadLivingIds;
}

export interface SelectedNetwork {
  readonly plugin: NetworkPlugin;
  /** What clean-up of CNI leftovers works with; undefined with no-op. */
  readonly cni: CniParts | undefined;
}

/**
 * The plugin that the flag names, or the one that suits this node, with the reason for the choice. It is made once: a
 * configuration directory that goes later makes the network not ready, and never turns pods over to Docker's bridge.
 */
export async function selectNetworkPlugin(
  selection: NetworkSelection,
  log: Logger,
  signal: AbortSignal,
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
      return kubenet(flag, selection, log, signal);
    default:
      return unreachable(name);
  }
}

function noop(reason: string, selection: NetworkSelection, log: Logger): SelectedNetwork {
  const { plugin: former, parts } = cniPlugin(reason, selection, log);
  const hasAttachment = async (sandboxId: string): Promise<boolean> =>
    (await parts.cache.find(sandboxId)).entries.length > 0;
  const plugin = new NoopNetworkPlugin({
    reason,
    log,
    former: { hasAttachment, tearDownPod: (request, signal) => former.tearDownPod(request, signal) },
  });
  return { plugin: new LockedNetworkPlugin(plugin), cni: undefined };
}

function cni(reason: string, selection: NetworkSelection, log: Logger): SelectedNetwork {
  const { plugin, parts } = cniPlugin(reason, selection, log);
  const { rememberPodCidrs: onPodCidrs, hostPortOwners } = selection;
  const claims = new HostPortClaims(hostPortOwners);
  return { plugin: new LockedNetworkPlugin(plugin, { onPodCidrs, claims }), cni: parts };
}

function cniPlugin(
  reason: string,
  { cniConfDir: confDir, cniBinDirs: binDirs, cniCacheDir: cacheDir, podCidrs }: NetworkSelection,
  log: Logger,
): { readonly plugin: CniNetworkPlugin; readonly parts: CniParts } {
  const options = { reason, log, confDir, binDirs, cacheDir, podCidrs };
  const parts = createCniParts(options);
  return { plugin: createCniPlugin(options, parts), parts };
}

async function kubenet(
  reason: string,
  selection: NetworkSelection,
  log: Logger,
  signal: AbortSignal,
): Promise<SelectedNetwork> {
  const { cniBinDirs: binDirs, cniCacheDir: cacheDir, networkPluginMtuBytes: mtuBytes } = selection;
  const { podCidrs, hairpinMode, nonMasqueradeCidr, hostPortOwners, livingIds } = selection;
  const engineOptions = { reason, log, binDirs, cacheDir };
  const parts = createCniParts(engineOptions);
  const plugin = await createKubenetPlugin(
    {
      ...engineOptions,
      ...{ podCidrs, mtuBytes, hairpinMode, nonMasqueradeCidr, hostPortOwners, livingIds },
    },
    signal,
    parts,
  );
  return { plugin: new LockedNetworkPlugin(plugin, { onPodCidrs: selection.rememberPodCidrs }), cni: parts };
}

async function isDirectory(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  return found?.isDirectory() === true;
}
