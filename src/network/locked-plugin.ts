import { KeyedLock } from "../shim/base/keyed-lock.js";
import { ShimError } from "../shim/base/errors.js";
import type { HostPortClaims } from "./hostport/host-port-claims.js";
import type {
  NetworkPlugin,
  PodNetworkReference,
  PodNetworkRequest,
  PodNetworkTearDown,
} from "../shim/ports/network-plugin.js";

export interface LockedPluginOptions {
  /** Called with each pod CIDR that arrives, before the plugin hears of it. */
  readonly onPodCidrs?: (cidrs: readonly string[]) => Promise<void>;
  /** For plugins that would give one host port to two pods, of which one is never reached. */
  readonly claims?: HostPortClaims;
}

/**
 * One lane per pod around the chosen plugin: a pod's new sandbox is set up after its old one was torn down. Questions
 * about addresses and readiness never wait for a lane, because a slow plugin must not stall the kubelet's relist.
 */
export class LockedNetworkPlugin implements NetworkPlugin {
  readonly name: string;
  readonly reason: string;
  readonly dockerNetworkMode: NetworkPlugin["dockerNetworkMode"];
  readonly dockerPublishesPorts: boolean;
  readonly #lanes = new KeyedLock();

  constructor(
    private readonly plugin: NetworkPlugin,
    private readonly options: LockedPluginOptions = {},
  ) {
    this.name = plugin.name;
    this.reason = plugin.reason;
    this.dockerNetworkMode = plugin.dockerNetworkMode;
    this.dockerPublishesPorts = plugin.dockerPublishesPorts;
  }

  async start(signal: AbortSignal): Promise<void> {
    try {
      await this.plugin.start(signal);
    } catch (error) {
      throw ShimError.from(error).within(`network plugin "${this.name}" failed init`);
    }
  }

  stop(): Promise<void> {
    return this.plugin.stop();
  }

  async setUpPod(request: PodNetworkRequest, signal: AbortSignal): Promise<readonly string[] | undefined> {
    return this.#inLane("failed to set up", request, signal, async () => {
      await this.options.claims?.claim(request, signal);
      return this.plugin.setUpPod(request, signal);
    });
  }

  async tearDownPod(request: PodNetworkTearDown, signal: AbortSignal): Promise<void> {
    await this.#inLane("failed to teardown", request, signal, async () => {
      await this.plugin.tearDownPod(request, signal);
      this.options.claims?.release(request);
    });
  }

  async podAddresses(reference: PodNetworkReference): Promise<readonly string[] | undefined> {
    try {
      return await this.plugin.podAddresses(reference);
    } catch (error) {
      throw this.#failure("failed on the status hook for", reference, error);
    }
  }

  async podCidrChanged(cidrs: readonly string[]): Promise<void> {
    await this.options.onPodCidrs?.(cidrs);
    await this.plugin.podCidrChanged(cidrs);
  }

  notReadyReason(): string | undefined {
    return this.plugin.notReadyReason();
  }

  describe(): Readonly<Record<string, unknown>> {
    return this.plugin.describe();
  }

  async #inLane<T>(
    verb: string,
    reference: PodNetworkReference,
    signal: AbortSignal,
    work: () => Promise<T>,
  ): Promise<T> {
    const { namespace, name, sandboxId } = reference;
    // Without a pod's name the sandbox stands for itself, so that unknown ones do not wait for each other.
    const key = name === "" ? sandboxId : `${namespace}/${name}`;
    try {
      return await this.#lanes.run(key, signal, work);
    } catch (error) {
      throw this.#failure(verb, reference, error, " network");
    }
  }

  /** Worded as dockershim's plugin manager does: people search for it. */
  #failure(
    verb: string,
    { namespace, name, sandboxId }: PodNetworkReference,
    error: unknown,
    what = "",
  ): ShimError {
    const action = `networkPlugin ${this.name} ${verb} pod "${name}_${namespace}"${what}`;
    return ShimError.from(error).within(action, { sandboxId });
  }
}
