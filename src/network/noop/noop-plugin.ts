import type { Logger } from "../../shim/lib/log.js";
import type { NetworkPlugin, PodNetworkTearDown } from "../../shim/ports/network-plugin.js";
import { letIptablesSeeBridges } from "../host-sysctls.js";
import type { RunCommand } from "../iptables/run-command.js";

/** Tears down pods that were set up with another plugin. */
export interface PreviousPlugin {
  hasAttachment(sandboxId: string): Promise<boolean>;
  tearDownPod(request: PodNetworkTearDown, signal: AbortSignal): Promise<void>;
}

export interface NoopNetworkOptions {
  /** Why this plugin was chosen. */
  readonly reason: string;
  readonly log: Logger;
  readonly previous?: PreviousPlugin;
  /** For tests. */
  readonly sysctlRoot?: string;
  readonly run?: RunCommand;
}

/**
 * The fallback: Docker's own bridge is the pod network, Docker's addresses are the pod's, and Docker
 * publishes the host ports. Sets up nothing, and tears down only pods that another plugin has set up.
 */
export class NoopNetworkPlugin implements NetworkPlugin {
  readonly name = "kubernetes.io/no-op";
  readonly dockerNetworkMode = "default";
  readonly dockerPublishesPorts = true;

  readonly reason: string;

  constructor(private readonly options: NoopNetworkOptions) {
    this.reason = options.reason;
  }

  /** The rules of Services must see what goes over Docker's bridge. */
  start(signal: AbortSignal): Promise<void> {
    return letIptablesSeeBridges(this.options, signal);
  }

  engineFound(): Promise<void> {
    // The networks of the engine are where the engine is.
    return Promise.resolve();
  }

  stop(): Promise<void> {
    return Promise.resolve();
  }

  setUpPod(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  /** A pod that was set up with another plugin is torn down with that plugin. */
  async tearDownPod(request: PodNetworkTearDown, signal: AbortSignal): Promise<void> {
    const { previous } = this.options;
    if ((await previous?.hasAttachment(request.sandboxId)) === true)
      await previous?.tearDownPod(request, signal);
  }

  podAddresses(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  podCidrChanged(): Promise<void> {
    return Promise.resolve();
  }

  notReadyReason(): undefined {
    return undefined;
  }

  describe(): Readonly<Record<string, unknown>> {
    return {};
  }
}
