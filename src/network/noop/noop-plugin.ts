import type { Logger } from "../../shim/lib/log.js";
import type { NetworkPlugin, PodNetworkTearDown } from "../../shim/ports/network-plugin.js";
import { letIptablesSeeBridges } from "../host-sysctls.js";
import type { RunCommand } from "../iptables/run-command.js";

/** What pods of a former plugin are released with. */
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
 * The fallback: Docker's own bridge is the pod network, Docker's addresses are the pod's, and Docker publishes the host
 * ports. There is nothing to set up, and nothing to tear down but what a former plugin made.
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
    // Wherever it is, its networks are there, too.
    return Promise.resolve();
  }

  stop(): Promise<void> {
    return Promise.resolve();
  }

  setUpPod(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  /** A pod of a time when this node had another plugin still has what that plugin gave it. */
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
