import { existsSync } from "node:fs";
import { messageOf } from "../lib/errors.js";
import type { Logger } from "../lib/log.js";
import type {
  EngineWhereabouts,
  NetworkPlugin,
  PodAddressQuestion,
  PodNetworkRequest,
  PodNetworkTearDown,
} from "../shim/ports/network-plugin.js";

export interface AutoNetworkOptions {
  readonly noop: NetworkPlugin;
  readonly cni: NetworkPlugin;
  readonly cniConfDir: string;
  /** Whether a pod has a network of no-op that was not torn down yet. */
  readonly hasPodsOfNoop: () => boolean;
  readonly log: Pick<Logger, "info" | "warn">;
}

/**
 * The choice of `auto` on a node without CNI: no-op, until the directory of CNI appears while no pod has a network.
 * A kubelet asks for the status before its first pod, and every few seconds: then it is looked for.
 */
export class AutoNetworkPlugin implements NetworkPlugin {
  #chosen: NetworkPlugin;
  #engine: EngineWhereabouts | undefined;
  readonly #stopping = new AbortController();

  constructor(private readonly options: AutoNetworkOptions) {
    this.#chosen = options.noop;
  }

  get name(): string {
    return this.#chosen.name;
  }

  get reason(): string {
    return this.#chosen.reason;
  }

  get dockerNetworkMode(): NetworkPlugin["dockerNetworkMode"] {
    return this.#chosen.dockerNetworkMode;
  }

  get dockerPublishesPorts(): boolean {
    return this.#chosen.dockerPublishesPorts;
  }

  start(signal: AbortSignal): Promise<void> {
    return this.#chosen.start(signal);
  }

  engineFound(engine: EngineWhereabouts): Promise<void> {
    this.#engine = engine;
    return this.#chosen.engineFound(engine);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#chosen.stop();
  }

  setUpPod(request: PodNetworkRequest, signal: AbortSignal): Promise<readonly string[] | undefined> {
    return this.#chosen.setUpPod(request, signal);
  }

  tearDownPod(request: PodNetworkTearDown, signal: AbortSignal): Promise<void> {
    return this.#chosen.tearDownPod(request, signal);
  }

  podAddresses(question: PodAddressQuestion): Promise<readonly string[] | undefined> {
    return this.#chosen.podAddresses(question);
  }

  podCidrChanged(cidrs: readonly string[]): Promise<void> {
    return this.#chosen.podCidrChanged(cidrs);
  }

  notReadyReason(): string | undefined {
    const { noop, cni, cniConfDir, hasPodsOfNoop, log } = this.options;
    const isOpen = this.#chosen === noop && !this.#stopping.signal.aborted;
    if (isOpen && existsSync(cniConfDir) && !hasPodsOfNoop()) {
      this.#chosen = cni;
      log.info({ reason: cni.reason }, "network plugin cni in place of no-op");
      this.#begin().catch((error: unknown) => {
        log.warn({ err: messageOf(error) }, "cannot start the network plugin");
      });
    }
    return this.#chosen.notReadyReason();
  }

  describe(): Readonly<Record<string, unknown>> {
    return this.#chosen.describe();
  }

  async #begin(): Promise<void> {
    const { cni } = this.options;
    await cni.start(this.#stopping.signal);
    if (this.#engine !== undefined) await cni.engineFound(this.#engine);
  }
}
