/** The network plugin, and what it asks of the rest of the program. */
import { join } from "node:path";
import type { HostPortOwner } from "../../network/hostport/host-port-claims.js";
import { NetworkLeftovers } from "../../network/leftovers.js";
import { selectNetworkPlugin } from "../../network/select-plugin.js";
import { withDeadline } from "../base/abort.js";
import type { Lifetime } from "../base/lifetime.js";
import type { Logger } from "../base/log.js";
import type { Config } from "../config/resolve.js";
import type { Engine } from "../ports/engine.js";
import type { NetworkPlugin } from "../ports/network-plugin.js";
import { PodCidrFile } from "../state/pod-cidr-file.js";
import { portMappingsOf } from "../rpc/sandbox-network.js";
import type { Stores } from "./stores.js";

export interface OpenNetwork {
  readonly network: NetworkPlugin;
  /** Undefined with no-op, which leaves nothing. */
  readonly leftovers: NetworkLeftovers | undefined;
}

const startTimeoutMs = 60_000;

/** Chooses the plugin once, and starts it. Throws what makes a start impossible, such as a node without iptables. */
export async function openNetwork(
  config: Config,
  stores: Stores,
  engine: Engine,
  log: Logger,
  lifetime: Lifetime,
): Promise<OpenNetwork> {
  return withDeadline(undefined, startTimeoutMs, "start the network plugin", async (signal) => {
    const { networkPlugin: name, cniConfDir, cniBinDirs, cniCacheDir } = config;
    const remembered = new PodCidrFile(join(config.stateDir, "pod-cidrs.json"), log);
    const podCidrs = config.podCidrs.length > 0 ? config.podCidrs : await remembered.read();
    const { networkPluginMtuBytes, hairpinMode, nonMasqueradeCidr } = config;
    const { plugin, cni } = await selectNetworkPlugin(
      {
        ...{ name, cniConfDir, cniBinDirs, cniCacheDir, podCidrs },
        ...{ networkPluginMtuBytes, hairpinMode, nonMasqueradeCidr },
        rememberPodCidrs: (cidrs) => remembered.write(cidrs),
        podsOfCni: [...stores.podRecords.all()].some(
          ({ network }) =>
            network.plugin === "cni" && network.state !== "tornDown" && network.state !== "none",
        ),
        hostPortOwners: () => hostPortOwners(stores),
        livingIds: async (own) => new Set((await engine.listContainers({}, own)).map(({ id }) => id)),
      },
      log,
      signal,
    );
    lifetime.onClose("network plugin", () => plugin.stop());
    await plugin.start(signal);
    return { network: plugin, leftovers: cni === undefined ? undefined : new NetworkLeftovers(cni) };
  });
}

/** Pods that have a network now. */
async function hostPortOwners({ podRecords, checkpoints }: Stores): Promise<readonly HostPortOwner[]> {
  const owners: HostPortOwner[] = [];
  for (const { sandboxId, namespace, name, network } of podRecords.all()) {
    if (network.state !== "ready" && network.state !== "settingUp") continue;
    owners.push({
      sandboxId,
      namespace,
      name,
      portMappings: await portMappingsOf(sandboxId, { checkpoints }),
    });
  }
  return owners;
}
