import { KeyedMutex } from "../lib/sync/keyed-mutex.js";
import { ShimError } from "../lib/errors.js";
import type { HostPortClaims } from "./hostport/host-port-claims.js";
import type { PodCidrs } from "./pod-cidrs.js";
import type { PodMakers } from "./pod-makers.js";
import type { NetworkOperationEnded } from "../shim/ports/observer.js";
import type {
  EngineWhereabouts,
  NetworkPlugin,
  PodAddressQuestion,
  PodNetworkReference,
  PodNetworkRequest,
  PodNetworkTearDown,
} from "../shim/ports/network-plugin.js";

export interface LockedPluginOptions {
  /** Decides which pod CIDRs the plugin gets; all when not given. */
  readonly podCidrs?: PodCidrs;
  /** For pods of other plugins; when not given, there are none. */
  readonly makers?: PodMakers;
  /** For plugins that would map one host port to two pods. */
  readonly claims?: HostPortClaims;
  /** Called after each operation on a pod, with its time, the wait for the lock included. */
  readonly observe?: ((ended: NetworkOperationEnded) => void) | undefined;
}

/**
 * One lock per pod around the chosen plugin: a pod's new sandbox is set up after its old one was torn down.
 * Addresses and readiness are read without a lock, because a slow plugin must not stall the kubelet's relist.
 *
 * A set-up or tear-down by CNI plugins waits in this order. No wait covers another one:
 * - the lock of the sandbox (RPCs): orders the calls for one sandbox, by name or by id;
 * - the lock of the pod (here): orders the sandboxes of one pod;
 * - the lock of the container id (`Attachments.alone`): against the clean-up, which knows no pod;
 * - the read lock of `Attachments`: GC, the only writer, must not run beside ADD or DEL. It yields to pods.
 */
export class LockedNetworkPlugin implements NetworkPlugin {
  readonly #locks = new KeyedMutex();

  constructor(
    private readonly plugin: NetworkPlugin,
    private readonly options: LockedPluginOptions = {},
  ) {}

  get name(): string {
    return this.plugin.name;
  }

  get reason(): string {
    return this.plugin.reason;
  }

  get dockerNetworkMode(): NetworkPlugin["dockerNetworkMode"] {
    return this.plugin.dockerNetworkMode;
  }

  get dockerPublishesPorts(): boolean {
    return this.plugin.dockerPublishesPorts;
  }

  async start(signal: AbortSignal): Promise<void> {
    try {
      await this.plugin.start(signal);
    } catch (error) {
      throw ShimError.from(error).within(`network plugin "${this.name}" failed init`);
    }
  }

  engineFound(engine: EngineWhereabouts): Promise<void> {
    return this.plugin.engineFound(engine);
  }

  stop(): Promise<void> {
    return this.plugin.stop();
  }

  async setUpPod(request: PodNetworkRequest, signal: AbortSignal): Promise<readonly string[] | undefined> {
    return this.#observed("setUpPod", () =>
      this.#locked("failed to set up", request, signal, async () => {
        // Docker itself refuses a port that is taken, and knows when it is free.
        if (!this.dockerPublishesPorts) await this.options.claims?.claim(request, signal);
        return this.plugin.setUpPod(request, signal);
      }),
    );
  }

  async tearDownPod(request: PodNetworkTearDown, signal: AbortSignal): Promise<void> {
    await this.#observed("tearDownPod", () =>
      this.#locked("failed to teardown", request, signal, async () => {
        const { makers } = this.options;
        await (makers?.tearDownPod(this.plugin, request, signal) ?? this.plugin.tearDownPod(request, signal));
        this.options.claims?.release(request);
      }),
    );
  }

  async podAddresses(reference: PodAddressQuestion): Promise<readonly string[] | undefined> {
    return this.#observed("podAddresses", async () => {
      try {
        const { makers } = this.options;
        return await (makers?.podAddresses(this.plugin, reference) ?? this.plugin.podAddresses(reference));
      } catch (error) {
        throw this.#failure("failed on the status hook for", reference, error);
      }
    });
  }

  async podCidrChanged(cidrs: readonly string[]): Promise<void> {
    const use = (accepted: readonly string[]): Promise<void> => this.plugin.podCidrChanged(accepted);
    await (this.options.podCidrs?.told(cidrs, use) ?? use(cidrs));
  }

  notReadyReason(): string | undefined {
    const reason = this.plugin.notReadyReason();
    const cidrProblem = this.options.podCidrs?.problem;
    return reason === undefined || cidrProblem === undefined ? reason : `${reason} (${cidrProblem})`;
  }

  describe(): Readonly<Record<string, unknown>> {
    return this.plugin.describe();
  }

  async #observed<T>(operation: NetworkOperationEnded["operation"], work: () => Promise<T>): Promise<T> {
    const { observe } = this.options;
    if (observe === undefined) return work();
    const startMs = performance.now();
    let failed = true;
    try {
      const result = await work();
      failed = false;
      return result;
    } finally {
      observe({ operation, ms: performance.now() - startMs, failed });
    }
  }

  async #locked<T>(
    verb: string,
    reference: PodNetworkReference,
    signal: AbortSignal,
    work: () => Promise<T>,
  ): Promise<T> {
    const { namespace, name, sandboxId } = reference;
    // Without a pod's name the sandbox stands for itself, so that unknown ones do not wait for each other.
    const key = name === "" ? sandboxId : `${namespace}/${name}`;
    try {
      return await this.#locks.run(key, signal, work);
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
