/** The network plugin, with the data of the program that it needs. */
import { join } from "node:path";
import { type NetworkCleanUp, type NetworkPlugin, noopPluginName } from "../ports/network-plugin.js";
import type { StartProgram } from "../native/start-program.js";
import { selectNetworkPlugin } from "../../network/select-plugin.js";
import { withDeadline } from "../../lib/abort.js";
import type { Lifetime } from "../../lib/lifetime.js";
import type { Logger } from "../../lib/log.js";
import type { Config } from "../config/resolve.js";
import type { Engine } from "../ports/engine.js";
import type { Observer } from "../ports/observer.js";
import { hasNetworkOf, hostPortOwners } from "../recovery/network-owners.js";
import { sandboxesOfKnownEngine } from "../recovery/remove-orphaned-networks.js";
import { PodCidrFile } from "../state/pod-cidr-file.js";
import type { Stores } from "./open-stores.js";
import { readOnlyNetwork } from "./read-only.js";

export interface OpenNetwork {
  readonly network: NetworkPlugin;
  /** Undefined with no-op, which leaves no resources. */
  readonly orphanedNetworks: NetworkCleanUp | undefined;
}

const startTimeoutMs = 60_000;

export interface NetworkParts extends Pick<Stores, "records" | "flusher"> {
  readonly engine: Engine;
  /** Starts plugins and tools of the host. */
  readonly start: StartProgram;
}

/** Chooses the plugin once, and starts it. */
export async function openNetwork(
  config: Config,
  { records, flusher, engine, start }: NetworkParts,
  log: Logger,
  lifetime: Lifetime,
  observer?: Observer,
): Promise<OpenNetwork> {
  return withDeadline(undefined, startTimeoutMs, "start the network plugin", async (signal) => {
    const { stateDir } = config;
    const cidrFile = new PodCidrFile(join(stateDir, "pod-cidrs.json"), log);
    const { plugin, orphans } = await selectNetworkPlugin(
      {
        name: config.networkPlugin,
        cniConfDir: config.cniConfDir,
        cniBinDirs: config.cniBinDirs,
        cniCacheDir: config.cniCacheDir,
        podCidrs: {
          flag: config.podCidrs,
          remembered: cidrFile.read(),
          remember: (cidrs) => cidrFile.write(cidrs),
        },
        networkPluginMtuBytes: config.networkPluginMtuBytes,
        hairpinMode: config.hairpinMode,
        nonMasqueradeCidrs: config.nonMasqueradeCidrs,
        iptablesMode: config.iptablesMode,
        start,
        flusher,
        observer,
        podsOfCni: hasNetworkOf("cni", records),
        hasPodsOfNoop: () => hasNetworkOf(noopPluginName, records),
        hostPortOwners: (own) => hostPortOwners(records, engine, own),
        knownSandboxes: (own) => sandboxesOfKnownEngine(stateDir, engine, own),
      },
      log,
    );
    // Its start would make directories and end orphaned plugins.
    if (config.readOnly) return { network: readOnlyNetwork(plugin), orphanedNetworks: undefined };
    lifetime.onClose("network plugin", () => plugin.stop());
    await plugin.start(signal);
    return { network: plugin, orphanedNetworks: orphans };
  });
}
