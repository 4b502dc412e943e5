import type { NetworkPlugin, PodNetworkRequest } from "../../src/shim/ports/network-plugin.js";
import { Journal } from "./journal.js";

/** A network plugin that gives addresses and takes them back; noted as `network.<verb>`. */
export class FakeNetwork implements NetworkPlugin {
  readonly name = "cni";
  readonly reason = "a test chose it";
  dockerNetworkMode: "default" | "none" = "none";
  dockerPublishesPorts = false;
  /** What the next set-ups answer; undefined: Docker's addresses are the pod's. */
  addresses: readonly string[] | undefined = ["10.1.0.5", "fd00::5"];
  /** Sandboxes that have a network now. */
  readonly pods = new Map<string, PodNetworkRequest>();
  /** Whether a tear-down holds the namespace, and does not need the pause container. */
  holdsNamespaces = true;
  /** What each tear-down waits for before it takes the network away. */
  duringTearDown: () => Promise<void> = () => Promise.resolve();
  /** The error of all tear-downs, as long as it is there. */
  tearDownFailure: Error | undefined;
  problem: string | undefined;

  constructor(private readonly journal = new Journal()) {}

  start: NetworkPlugin["start"] = (signal) => this.#do("start", [], signal, () => undefined);

  async engineFound(): Promise<void> {
    // Nothing depends on it.
  }

  stop(): Promise<void> {
    return Promise.resolve();
  }

  setUpPod: NetworkPlugin["setUpPod"] = (request, signal) =>
    this.#do("setUpPod", [request], signal, () => {
      this.pods.set(request.sandboxId, request);
      return this.addresses;
    });

  tearDownPod: NetworkPlugin["tearDownPod"] = async ({ namespaceHeld, ...request }, signal) => {
    if (this.holdsNamespaces) namespaceHeld?.();
    await this.duringTearDown();
    await this.#do("tearDownPod", [request], signal, () => {
      if (this.tearDownFailure !== undefined) throw this.tearDownFailure;
      this.pods.delete(request.sandboxId);
    });
  };

  podAddresses: NetworkPlugin["podAddresses"] = (reference) =>
    this.#do("podAddresses", [reference], undefined, () =>
      this.pods.has(reference.sandboxId) ? this.addresses : undefined,
    );

  podCidrChanged: NetworkPlugin["podCidrChanged"] = (cidrs) =>
    this.#do("podCidrChanged", [cidrs], undefined, () => undefined);

  notReadyReason(): string | undefined {
    return this.problem;
  }

  describe(): Readonly<Record<string, unknown>> {
    return { fake: true };
  }

  #do<T>(
    verb: keyof NetworkPlugin,
    args: readonly unknown[],
    signal: AbortSignal | undefined,
    work: () => T,
  ): Promise<T> {
    return this.journal.do("network", verb, args, work, signal);
  }
}
