import { KeyedLock } from "../shim/base/keyed-lock.js";
import { ShimError } from "../shim/base/errors.js";
import type {
  NetworkPlugin,
  PodNetworkReference,
  PodNetworkRequest,
  PodNetworkTearDown,
} from "../shim/ports/network-plugin.js";

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

  constructor(private readonly plugin: NetworkPlugin) {
    this.name = plugin.name;
    this.reason = plugin.reason;
    this.dockerNetworkMode = plugin.dockerNetworkMode;
    this.dockerPublishesPorts = plugin.dockerPublishesPorts;
  }

  start(signal: AbortSignal): Promise<void> {
    return this.plugin.start(signal);
  }

  async setUpPod(request: PodNetworkRequest, signal: AbortSignal): Promise<readonly string[] | undefined> {
    return this.#inLane("set up", request, signal, () => this.plugin.setUpPod(request, signal));
  }

  async tearDownPod(request: PodNetworkTearDown, signal: AbortSignal): Promise<void> {
    await this.#inLane("tear down", request, signal, () => this.plugin.tearDownPod(request, signal));
  }

  podAddresses(reference: PodNetworkReference): Promise<readonly string[] | undefined> {
    return this.plugin.podAddresses(reference);
  }

  podCidrChanged(cidrs: readonly string[]): Promise<void> {
    return this.plugin.podCidrChanged(cidrs);
  }

  notReadyReason(): string | undefined {
    return this.plugin.notReadyReason();
  }

  describe(): Readonly<Record<string, unknown>> {
    return this.plugin.describe();
  }

  async #inLane<T>(
    action: string,
    { namespace, name, sandboxId }: PodNetworkReference,
    signal: AbortSignal,
    work: () => Promise<T>,
  ): Promise<T> {
    // Without a pod's name the sandbox stands for itself, so that unknown ones do not wait for each other.
    const key = name === "" ? sandboxId : `${namespace}/${name}`;
    try {
      return await this.#lanes.run(key, signal, work);
    } catch (error) {
      const text = `networkPlugin ${this.name} failed to ${action} pod "${name}_${namespace}" network`;
      throw ShimError.from(error).within(text, { sandboxId });
    }
  }
}
