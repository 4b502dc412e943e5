/** Network namespaces that outlive the processes in them, because this program holds them open. */
import { closeSync, openSync } from "node:fs";
import {
  isNamespace,
  KernelNamespaces,
  type NamespaceLook,
  type NamespaceProof,
  type NetworkNamespaces,
  type PodNamespace,
} from "./network-namespaces.js";

export interface PodNamespaces extends NetworkNamespaces {
  /**
   * Holds the namespace for the container until `release`, and says at which path. What is held for it already
   * stays the same one. Undefined when none is held.
   */
  hold(containerId: string, namespace: Partial<PodNamespace>): HeldNamespace | undefined;
  release(containerId: string): void;
}

export interface HeldNamespace {
  readonly netns: string;
  readonly netnsIdentity: string;
}

interface Open extends HeldNamespace {
  readonly descriptor: number;
}

/** No kubelet has as many pods: the others are of pods that it has given up. */
const mostHeld = 1000;

/**
 * Programs on this node find a held namespace by the path of its descriptor in /proc. The one that was held longest ago
 * is let go for one that is too many.
 */
export class HeldNamespaces implements PodNamespaces {
  readonly #held = new Map<string, Open>();
  readonly #looks = new Map<string, NamespaceLook>();

  constructor(
    private readonly kernel: NetworkNamespaces = new KernelNamespaces(),
    private readonly most = mostHeld,
  ) {}

  /** A held namespace keeps the identity that was proven when it was opened. */
  look(path: string): NamespaceLook | undefined {
    return this.#looks.get(path) ?? this.kernel.look(path);
  }

  prove(path: string): NamespaceProof | undefined {
    const held = this.#looks.get(path);
    if (held === undefined) return this.kernel.prove(path);
    const holds = (): boolean => this.#looks.get(path) === held;
    return { ...held, directory: undefined, holds, [Symbol.dispose]: () => undefined };
  }

  hold(containerId: string, namespace: Partial<PodNamespace>): HeldNamespace | undefined {
    const held = this.#held.get(containerId) ?? this.#open(namespace);
    if (held === undefined) return undefined;
    this.#held.delete(containerId);
    this.#held.set(containerId, held);
    const [oldest = containerId] = this.#held.keys();
    if (this.#held.size > this.most) this.release(oldest);
    this.#looks.set(held.netns, { identity: held.netnsIdentity, own: false });
    return held;
  }

  release(containerId: string): void {
    const held = this.#held.get(containerId);
    if (held === undefined) return;
    this.#held.delete(containerId);
    this.#looks.delete(held.netns);
    closeSync(held.descriptor);
  }

  /** Undefined when the pod's namespace is not there, or cannot be held. */
  #open({ netns = "", netnsIdentity }: Partial<PodNamespace>): Open | undefined {
    if (netns === "") return undefined;
    let descriptor: number;
    try {
      descriptor = openSync(netns, "r");
    } catch {
      // Gone, or this program has no descriptor left.
      return undefined;
    }
    const path = `/proc/${process.pid}/fd/${descriptor}`;
    // An open namespace stays the same one, so the proof comes afterwards.
    const found = this.kernel.look(netns);
    const isProven = found?.own === false && found.identity === (netnsIdentity ?? found.identity);
    if (isProven && this.#leadsTo(path, descriptor) && isNamespace(found.identity, descriptor))
      return { netns: path, netnsIdentity: found.identity, descriptor };
    closeSync(descriptor);
    return undefined;
  }

  /** False where /proc has other process ids than this program. */
  #leadsTo(path: string, descriptor: number): boolean {
    const seen = this.kernel.look(path);
    return seen !== undefined && isNamespace(seen.identity, descriptor);
  }
}
