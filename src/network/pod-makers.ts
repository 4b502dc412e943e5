/**
 * Pods outlive a change of `--network-plugin`. Each is torn down by the plugin that has set it up: another
 * would run its own list on a network that it does not know.
 */
import type { Logger } from "../lib/log.js";
import {
  noopPluginName,
  type NetworkPlugin,
  type PodAddressQuestion,
  type PodNetworkTearDown,
} from "../shim/ports/network-plugin.js";
import type { Attachments } from "./cni/attachments.js";
import { kubenetNetworkName } from "./kubenet/kubenet-conflist.js";
import { networksHolding } from "./orphans/held-resources.js";

/** A plugin that is not the present one and not started: it makes nothing on the node. */
export interface FormerPlugin extends Pick<NetworkPlugin, "name" | "tearDownPod" | "podAddresses"> {
  /** Finds the list for pods whose own one is not cached. Never throws but for `signal`. */
  readonly findList: (signal: AbortSignal) => Promise<void>;
}

export interface PodMakersOptions {
  readonly attachments: Pick<Attachments, "cachedNetwork">;
  /** The plugins beside the present one, apart from no-op. */
  readonly formers: readonly FormerPlugin[];
  readonly log: Pick<Logger, "info">;
  /** Data directory of the host-local plugin. Default: the plugin's. */
  readonly addressDir?: string | undefined;
}

export class PodMakers {
  constructor(private readonly options: PodMakersOptions) {}

  /** By the plugin that set the pod up: by cache, else caller, else reserved addresses, else `present`. */
  async tearDownPod(present: NetworkPlugin, request: PodNetworkTearDown, signal: AbortSignal): Promise<void> {
    const { formers, log } = this.options;
    const { sandboxId } = request;
    const cached = await this.options.attachments.cachedNetwork(sandboxId);
    const known = cached === undefined ? request.setUpBy : pluginOf(cached.name);
    const maker = known ?? (await this.#holderOfAddress(sandboxId)) ?? present.name;
    // Docker releases the networks of no-op with their containers.
    if (maker === noopPluginName) return;
    const former = formers.find(({ name }) => name === maker);
    if (former === undefined) return present.tearDownPod(request, signal);
    log.info(
      { sandboxId, setUpBy: maker, plugin: present.name },
      "releasing a pod of another network plugin",
    );
    // It asks the programs of all plugins of the list for their versions.
    if (cached?.hasList !== true) await former.findList(signal);
    await former.tearDownPod(request, signal);
  }

  /** Addresses of a pod on a network that is not Docker's, while new pods use Docker's. */
  async podAddresses(
    present: NetworkPlugin,
    question: PodAddressQuestion,
  ): Promise<readonly string[] | undefined> {
    const [former] = present.name === noopPluginName ? this.options.formers : [];
    return (former ?? present).podAddresses(question);
  }

  async #holderOfAddress(sandboxId: string): Promise<string | undefined> {
    const networks = await networksHolding(sandboxId, this.options.addressDir);
    if (networks.includes(kubenetNetworkName)) return "kubenet";
    return networks.length > 0 ? "cni" : undefined;
  }
}

function pluginOf(networkName: string): string {
  return networkName === kubenetNetworkName ? "kubenet" : "cni";
}
