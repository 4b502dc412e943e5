import type { Logger } from "../../shim/lib/log.js";
import { noopPluginName, type NetworkPlugin } from "../../shim/ports/network-plugin.js";
import { letIptablesSeeBridges } from "../host-sysctls.js";
import type { RunCommand } from "../iptables/run-command.js";

export interface NoopNetworkOptions {
  /** Why this plugin was chosen. */
  readonly reason: string;
  readonly log: Logger;
  /** For tests. */
  readonly sysctlRoot?: string;
  readonly run?: RunCommand;
}

/**
 * The fallback: Docker's own bridge is the pod network, Docker's addresses are the pod's, and Docker
 * publishes the host ports. Sets up and tears down nothing.
 */
export class NoopNetworkPlugin implements NetworkPlugin {
  readonly name = noopPluginName;
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

  tearDownPod(): Promise<void> {
    return Promise.resolve();
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
