/** The network plugin, and what it asks of the rest of the program. */
import { join } from "node:path";
import type { HostPortOwner } from "../../network/hostport/host-port-claims.js";
import type { OrphanedNetworks } from "../../network/orphans/orphaned-networks.js";
import { selectNetworkPlugin } from "../../network/select-plugin.js";
import { withDeadline } from "../lib/abort.js";
import type { Lifetime } from "../lib/lifetime.js";
import type { Logger } from "../lib/log.js";
import type { Config } from "../config/resolve.js";
import type { Engine } from "../ports/engine.js";
import type { NetworkPlugin } from "../ports/network-plugin.js";
import type { Observer } from "../ports/observer.js";
import { PodCidrFile } from "../state/pod-cidr-file.js";
import { portMappingsOf } from "../cri/sandbox/sandbox-network.js";
import { sandboxesOfKnownEngine } from "../recovery/orphaned-networks.js";
import type { Stores } from "./stores.js";

export interface OpenNetwork {
  readonly network: NetworkPlugin;
  /** Undefined with no-op, which leaves nothing. */
  readonly leftovers: OrphanedNetworks | undefined;
}

const startTimeoutMs = 60_000;

/** Chooses the plugin once, and starts it. */
export async function openNetwork(
  config: Config,
  stores: Stores,
  engine: Engine,
  log: Logger,
  lifetime: Lifetime,
  observer?: Observer,
): Promise<OpenNetwork> {
  return withDeadline(undefined, startTimeoutMs, "start the network plugin", async (signal) => {
    const { networkPlugin: name, cniConfDir, cniBinDirs, cniCacheDir, stateDir } = config;
    const { networkPluginMtuBytes, hairpinMode, nonMasqueradeCidr, iptablesMode } = config;
    const cidrFile = new PodCidrFile(join(stateDir, "pod-cidrs.json"), log);
    const podCidrs = {
      flag: config.podCidrs,
      remembered: await cidrFile.read(),
      remember: (cidrs: readonly string[]) => cidrFile.write(cidrs),
    };
    const { plugin, orphans: leftovers } = await selectNetworkPlugin(
      {
        ...{ name, cniConfDir, cniBinDirs, cniCacheDir, podCidrs },
        ...{ networkPluginMtuBytes, hairpinMode, nonMasqueradeCidr, iptablesMode, observer },
        podsOfCni: [...stores.podRecords.all()].some(
          ({ network }) =>
            network.plugin === "cni" && network.state !== "tornDown" && network.state !== "none",
        ),
        hostPortOwners: (own) => hostPortOwners(stores, engine, own),
        knownSandboxes: (own) => sandboxesOfKnownEngine(stateDir, engine, own),
      },
      log,
    );
    lifetime.onClose("network plugin", () => plugin.stop());
    await plugin.start(signal);
    return { network: plugin, leftovers };
  });
}

/**
 * Pods that have a network now: by our records, and by the checkpoints that dockershim and cri-dockerd wrote for pods
 * that still run. Those have no record, and no network any more once their container has ended.
 */
export async function hostPortOwners(
  { podRecords, checkpoints }: Pick<Stores, "podRecords" | "checkpoints">,
  engine: Pick<Engine, "listContainers">,
  signal: AbortSignal,
): Promise<readonly HostPortOwner[]> {
  const owners: HostPortOwner[] = [];
  const recorded = new Set<string>();
  for (const { sandboxId, namespace, name, network } of podRecords.all()) {
    recorded.add(sandboxId);
    if (network.state !== "ready" && network.state !== "settingUp") continue;
    owners.push({
      sandboxId,
      namespace,
      name,
      portMappings: await portMappingsOf(sandboxId, { checkpoints }),
    });
  }
  const unrecorded = (await checkpoints.list()).filter((id) => !recorded.has(id));
  if (unrecorded.length === 0) return owners;
  const running = new Set(
    (await engine.listContainers({}, signal))
      .filter(({ status }) => status === "running" || status === "paused")
      .map(({ id }) => id),
  );
  for (const sandboxId of unrecorded.filter((id) => running.has(id))) {
    const checkpoint = await checkpoints.get(sandboxId);
    if (checkpoint === undefined || checkpoint.data.hostNetwork === true) continue;
    const { namespace, name } = checkpoint;
    owners.push({
      sandboxId,
      namespace,
      name,
      portMappings: await portMappingsOf(sandboxId, { checkpoints }),
    });
  }
  return owners;
}
