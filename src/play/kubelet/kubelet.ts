/** Keeps pods as their manifests want them: one loop for each pod, and one stream of events for all. */
import { ShimError } from "../../lib/errors.js";
import { Semaphore } from "../../lib/sync/semaphore.js";
import type { Manifest, PodKey } from "../manifests/read-manifests.js";
import type { PodEvent } from "./events.js";
import type { ObservedPod } from "../pod-rules/observed-pod.js";
import type { PodStatus } from "../pod-rules/status-types.js";
import { watchPods } from "./pod-watch.js";
import type { KubeletDeps } from "./kubelet-deps.js";
import { PodWorker } from "./pod-worker.js";
import { nameOf } from "../manifests/manifest.js";

export interface KubeletListener {
  onEvent?(event: PodEvent): void;
  onStatus?(manifest: Manifest, status: PodStatus, observed: ObservedPod): void;
  /** The pod was deleted, and its files with it. */
  onRemoved?(key: Pick<PodKey, "namespace" | "name">): void;
  /** The pod is left as it is, to another kubelet or to none. */
  onForgotten?(key: Pick<PodKey, "namespace" | "name">): void;
}

/** How many pods act at the same time. */
const parallelPods = 64;

export class Kubelet implements AsyncDisposable {
  readonly #workers = new Map<string, PodWorker>();
  readonly #listeners = new Set<KubeletListener>();
  readonly #stop = new AbortController();
  readonly #turns = new Semaphore(parallelPods);
  #watching: Promise<void> | undefined;

  constructor(private readonly deps: KubeletDeps) {}

  /** The result ends it. */
  listen(listener: KubeletListener): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => this.#listeners.delete(listener) };
  }

  /** Takes a pod, or changes one. With `failFast`, an error before it was applied ends its loop. */
  apply(manifest: Manifest, options: { readonly failFast: boolean }): PodWorker {
    if (this.#stop.signal.aborted) throw new ShimError("internal", "the kubelet has ended");
    this.#watching ??= this.#watch();
    const id = nameOf(manifest.key);
    const present = this.#workers.get(id);
    if (present?.isOver === false) {
      present.update(manifest);
      return present;
    }
    const worker = new PodWorker(manifest, {
      ...this.deps,
      ...options,
      turns: this.#turns,
      onEvent: (event) => {
        for (const listener of this.#listeners) listener.onEvent?.(event);
      },
      onStatus: (...status) => {
        for (const listener of this.#listeners) listener.onStatus?.(...status);
      },
    });
    this.#workers.set(id, worker);
    worker.start();
    return worker;
  }

  get pods(): readonly PodWorker[] {
    return [...this.#workers.values()];
  }

  pod(key: Pick<PodKey, "namespace" | "name">): PodWorker | undefined {
    return this.#workers.get(nameOf(key));
  }

  /** Deletes a pod that it has in charge. */
  async remove(
    key: Pick<PodKey, "namespace" | "name">,
    signal: AbortSignal,
    graceSeconds?: number,
  ): Promise<void> {
    const worker = this.pod(key);
    if (worker === undefined) return;
    await worker.remove(signal, graceSeconds);
    this.#workers.delete(nameOf(key));
    for (const listener of this.#listeners) listener.onRemoved?.(key);
  }

  /** Ends the loop of a pod and leaves the pod as it is. */
  async forget(key: Pick<PodKey, "namespace" | "name">): Promise<void> {
    const worker = this.pod(key);
    if (worker === undefined) return;
    await worker.stop();
    this.#workers.delete(nameOf(key));
    for (const listener of this.#listeners) listener.onForgotten?.(key);
  }

  /** Leaves all pods as they are. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new ShimError("cancelled", "the kubelet ends"));
    await Promise.all([this.#watching, ...this.pods.map((worker) => worker.stop())]);
  }

  #watch(): Promise<void> {
    const onChange = (pod: string | undefined): void => {
      if (pod !== undefined) this.#workers.get(pod)?.wake();
      else for (const worker of this.#workers.values()) worker.wake();
    };
    return watchPods({ ...this.deps, onChange }, this.#stop.signal);
  }
}
