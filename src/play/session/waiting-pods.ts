/** Pods of StatefulSets that are made when the one before them has been ready for minReadySeconds. */
import type { Clock } from "../kubelet/clock.js";
import type { Kubelet } from "../kubelet/kubelet.js";
import type { Manifest, PodKey } from "../manifests/manifest.js";

export class WaitingPods {
  #manifests: readonly Manifest[] = [];
  #cancelWake: (() => void) | undefined;

  constructor(
    private readonly kubelet: Kubelet,
    private readonly clock: Clock,
  ) {}

  get keys(): readonly PodKey[] {
    return this.#manifests.map(({ key }) => key);
  }

  /** Others from now on. */
  replace(manifests: readonly Manifest[]): void {
    this.#manifests = manifests;
    this.start();
  }

  /** Makes those whose time has come; to be called after each change of a pod. */
  start(): void {
    const now = this.clock.now();
    const due = this.#manifests.filter((manifest) => this.#dueAt(manifest) <= now);
    this.#manifests = this.#manifests.filter((manifest) => !due.includes(manifest));
    for (const manifest of due) this.kubelet.apply(manifest, { failFast: false });
    this.close();
    const next = Math.min(...this.#manifests.map((manifest) => this.#dueAt(manifest)));
    if (next === Infinity) return;
    this.#cancelWake = this.clock.after(next - now, () => this.start());
  }

  /** Answers those that would wait for the pod for ever, and waits for them no more. */
  drop({ namespace, name }: PodKey): readonly PodKey[] {
    const next = this.#manifests.filter(
      ({ startsAfter, key }) => key.namespace === namespace && startsAfter === name,
    );
    this.#manifests = this.#manifests.filter((manifest) => !next.includes(manifest));
    return next.map(({ key }) => key);
  }

  close(): void {
    this.#cancelWake?.();
    this.#cancelWake = undefined;
  }

  #dueAt({ key: { namespace }, startsAfter: name = "", update }: Manifest): number {
    const { readiness, loss } = this.kubelet.pod({ namespace, name }) ?? {};
    const isReady = loss === undefined && readiness?.isReady === true;
    return isReady ? readiness.since + (update?.minReadySeconds ?? 0) * 1000 : Infinity;
  }
}
