import type { Logger } from "../../lib/log.js";
import { ShimError } from "../../lib/errors.js";
import {
  noopPluginName,
  type EngineWhereabouts,
  type NetworkPlugin,
} from "../../shim/ports/network-plugin.js";
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

const noDefaultNetwork =
  'the Docker Engine has no default network ("bridge": "none" in daemon.json), so pods of no-op get no address; remove that setting, or use --network-plugin=cni';

/** The fallback: Docker's bridge and addresses are the pod's, and Docker publishes host ports. */
export class NoopNetworkPlugin implements NetworkPlugin {
  readonly name = noopPluginName;
  readonly dockerNetworkMode = "default";
  readonly dockerPublishesPorts = true;

  readonly reason: string;
  #problem: string | undefined;

  constructor(private readonly options: NoopNetworkOptions) {
    this.reason = options.reason;
  }

  /** The rules of Services must see what goes over Docker's bridge. */
  start(signal: AbortSignal): Promise<void> {
    return letIptablesSeeBridges(this.options, signal);
  }

  /** The networks of the engine are where the engine is. */
  engineFound({ defaultNetwork = true }: EngineWhereabouts): Promise<void> {
    this.#problem = defaultNetwork ? undefined : noDefaultNetwork;
    return Promise.resolve();
  }

  async stop(): Promise<void> {}

  setUpPod(): Promise<undefined> {
    const problem = this.#problem;
    return problem === undefined
      ? Promise.resolve(undefined)
      : Promise.reject(new ShimError("unavailable", problem));
  }

  async tearDownPod(): Promise<void> {}

  async podAddresses(): Promise<undefined> {}

  async podCidrChanged(): Promise<void> {}

  notReadyReason(): string | undefined {
    return this.#problem;
  }

  describe(): Readonly<Record<string, unknown>> {
    return {};
  }
}
