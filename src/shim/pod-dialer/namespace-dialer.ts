/** Connects to pods of an engine on this host, in the network namespace of their sandbox. */
import { closeSync } from "node:fs";
import type { Duplex } from "node:stream";
import { ShimError } from "../../lib/errors.js";
import { Semaphore } from "../../lib/sync/semaphore.js";
import type { Snapshot } from "../../domain/snapshot.js";
import type { HostAccess } from "../ports/host.js";
import type { PodDialer } from "../ports/pod-dialer.js";
import { isHelperLost } from "../native/process-life.js";
import type { DialerProcess } from "./dialer-process.js";

/** Below the limit of requests in the helper; further ones wait. */
const connectsAtOnce = 240;
/** A pod whose service does not accept must not block connections to other pods. */
const connectsPerPod = 48;

interface PodPermits {
  readonly semaphore: Semaphore;
  users: number;
}

export class NamespaceDialer implements PodDialer {
  readonly #all = new Semaphore(connectsAtOnce);
  readonly #pods = new Map<string, PodPermits>();

  constructor(
    private readonly dialer: Pick<DialerProcess, "connect">,
    private readonly host: () => Pick<HostAccess, "openNetworkNamespace">,
  ) {}

  async connect(sandbox: Snapshot, port: number, signal: AbortSignal): Promise<Duplex> {
    const pod = this.#pods.get(sandbox.id) ?? { semaphore: new Semaphore(connectsPerPod), users: 0 };
    this.#pods.set(sandbox.id, pod);
    pod.users += 1;
    try {
      return await pod.semaphore.run(signal, () =>
        this.#all.run(signal, () => this.#connect(sandbox, port, signal)),
      );
    } finally {
      pod.users -= 1;
      if (pod.users === 0) this.#pods.delete(sandbox.id);
    }
  }

  async #connect(sandbox: Snapshot, port: number, signal: AbortSignal): Promise<Duplex> {
    // Synchronous: /proc does not wait for a disk.
    const namespace = this.host().openNetworkNamespace(sandbox);
    if (namespace === undefined) throw outOfReach(sandbox);
    try {
      return await this.dialer.connect(namespace, port, signal);
    } catch (error) {
      if (!isHelperLost(error)) throw error;
      return await this.dialer.connect(namespace, port, signal);
    } finally {
      closeSync(namespace);
    }
  }
}

function outOfReach({ id }: Snapshot): ShimError {
  return new ShimError("unsupported", "the processes of the sandbox are out of reach", { sandboxId: id });
}
