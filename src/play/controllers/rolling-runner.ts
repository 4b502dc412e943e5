/** Makes the pods of one changed workload anew, by the decisions of rolling.ts, until all are. */
import { ShimError } from "../../lib/errors.js";
import { type Manifest, type PodKey, type UpdateStrategy, nameOf } from "../manifests/manifest.js";
import { podRevision } from "../pod-config/hashes.js";
import { probeTimes } from "../kubelet/probe-counters.js";
import type { PodWorker } from "../kubelet/pod-worker.js";
import { type JobEnvironment, removeSurely } from "./job-runner.js";
import { type RollingPod, decideRolling } from "./rolling.js";

export interface RollingRunnerDeps extends Omit<JobEnvironment, "client"> {
  /** The time for a decision has come: calls `decide`, and looks after its outcome. */
  readonly wake: () => void;
  /** Another play has the pod. */
  readonly onLost: (key: PodKey) => void;
}

const brokenMs = 30_000;

/** A pod that is not ready for so long does not count as one that is about to be. */
function brokenAfterMs({ pod: { spec } }: Manifest): number {
  const probes = [...spec.containers, ...(spec.initContainers ?? [])].flatMap(
    ({ readinessProbe }) => readinessProbe ?? [],
  );
  const times = probes.map((probe) => {
    const { periodMs, timeoutMs, successThreshold } = probeTimes(probe);
    return successThreshold * periodMs + timeoutMs;
  });
  return Math.max(brokenMs, ...times);
}

type Key = Pick<PodKey, "namespace" | "name">;

export class RollingRunner {
  readonly #revisions = new WeakMap<Manifest, string>();
  readonly #stop = new AbortController();
  #cancelWake: (() => void) | undefined;
  #running: Promise<void> | undefined;
  #isDirty = false;
  #isOver = false;
  /** How much of the change was reached, and when. */
  #progress = { reached: -1, at: 0, isReported: false };

  /** `name`: of the workload, for people. `pods`: all that it wants, by ordinal. */
  constructor(
    readonly name: string,
    private readonly update: UpdateStrategy,
    private readonly pods: readonly Manifest[],
    private readonly deps: RollingRunnerDeps,
  ) {}

  get isOver(): boolean {
    return this.#isOver;
  }

  get surge(): readonly Manifest[] {
    return this.update.surge;
  }

  has(key: Key): boolean {
    return [...this.pods, ...this.surge].some((one) => nameOf(one.key) === nameOf(key));
  }

  /** Whether the pod is not yet what it is to become. */
  awaits(key: Key): boolean {
    const pod = this.pods.find((one) => nameOf(one.key) === nameOf(key));
    if (this.#isOver || pod?.staysBy !== undefined || pod === undefined) return false;
    const { revision, isAvailable } = this.#look(pod);
    return revision !== "new" || !isAvailable;
  }

  /** Says what is about to happen, and does the first of it. */
  async start(): Promise<void> {
    const { report } = this.deps;
    const old = this.pods.filter((pod) => this.#look(pod).revision === "old");
    const staying = old.filter(({ staysBy }) => staysBy !== undefined);
    for (const staysBy of new Set(staying.map((pod) => pod.staysBy ?? ""))) {
      const names = staying.filter((pod) => pod.staysBy === staysBy).map(({ key }) => nameOf(key));
      const how = staysBy.startsWith("partition") ? "" : '; remove one with "pod down" and play again';
      report(`${this.name}: changed, but ${names.join(", ")} stay as they are (${staysBy})${how}`);
    }
    const count = old.length - staying.length;
    const { type, withoutSurge, surge } = this.update;
    if (count > 0 && withoutSurge !== undefined && type === "RollingUpdate")
      report(`${this.name}: no pod can be made beside the others (maxSurge): ${withoutSurge}`);
    const limits =
      type === "Recreate" ? "all at once (Recreate)" : `at most ${this.#unavailable} fewer at a time`;
    const extra = surge.length > 0 ? `, ${Math.min(surge.length, count)} more meanwhile` : "";
    if (count > 0)
      report(`${this.name}: changed: ${count} of ${this.pods.length} pods follow, ${limits}${extra}`);
    await this.decide();
  }

  get #unavailable(): number {
    return Math.max(this.update.maxUnavailable, this.surge.length === 0 ? 1 : 0);
  }

  /** Called when one of its pods may have changed. */
  async decide(): Promise<void> {
    this.#isDirty = true;
    if (this.#isOver || this.#stop.signal.aborted) return;
    this.#running ??= this.#turns();
    await this.#running;
  }

  /** Changes nothing more. */
  async close(): Promise<void> {
    this.#stop.abort(new ShimError("cancelled", "the workload is left as it is"));
    this.#cancelWake?.();
    await this.#running?.catch(() => undefined);
  }

  async #turns(): Promise<void> {
    try {
      while (this.#isDirty && !this.#isOver && !this.#stop.signal.aborted) {
        this.#isDirty = false;
        await this.#turn();
      }
    } finally {
      // In the same turn of the event loop as the last look at `isDirty`: no call between them is lost.
      this.#running = undefined;
    }
  }

  async #turn(): Promise<void> {
    const { signal } = this.#stop;
    const look = (pods: readonly Manifest[]): readonly RollingPod[] => pods.map((pod) => this.#look(pod));
    const rolled = look(this.pods.filter(({ staysBy }) => staysBy === undefined));
    const staying = look(this.pods.filter(({ staysBy }) => staysBy !== undefined));
    const surge = look(this.surge);
    const decision = decideRolling(this.update, rolled, staying, surge);
    this.#isOver = decision.isOver;
    this.#checkProgress([...rolled, ...surge]);
    this.#schedule();
    await Promise.all(this.#named(decision.remove).map((pod) => this.#remove(pod.key, signal)));
    for (const pod of this.#named(decision.make)) {
      if (await this.#worker(pod)?.isLost()) this.deps.onLost(pod.key);
      if (signal.aborted) return;
      this.deps.kubelet.apply(pod, { failFast: false });
    }
    this.#isDirty ||= decision.remove.length > 0;
  }

  async #remove(key: PodKey, signal: AbortSignal): Promise<void> {
    if (await this.deps.kubelet.pod(key)?.isLost()) this.deps.onLost(key);
    try {
      if (!signal.aborted) await removeSurely(key, this.deps, signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  #named(names: readonly string[]): readonly Manifest[] {
    return [...this.pods, ...this.surge].filter(({ key }) => names.includes(key.name));
  }

  #worker({ key }: Manifest): PodWorker | undefined {
    return this.deps.kubelet.pod(key);
  }

  #look(pod: Manifest): RollingPod {
    const { name } = pod.key;
    const worker = this.#worker(pod);
    if (worker === undefined) return { name, revision: "missing", isAvailable: false, isBroken: false };
    const revision = this.#revisionOf(worker.manifest) === this.#revisionOf(pod) ? "new" : "old";
    const { readiness, status } = worker;
    if (readiness === undefined) return { name, revision, isAvailable: false, isBroken: false };
    const forMs = this.deps.clock.now() - readiness.since;
    const minimumMs = revision === "new" ? this.update.minReadySeconds * 1000 : 0;
    const hasEnded = status?.containerStatuses.some(({ state }) => state.running === undefined) ?? false;
    return {
      ...{ name, revision },
      isAvailable: readiness.isReady && forMs >= minimumMs,
      isBroken: !readiness.isReady && (hasEnded || forMs >= brokenAfterMs(worker.manifest)),
    };
  }

  #revisionOf(manifest: Manifest): string {
    const revision = this.#revisions.get(manifest) ?? podRevision(manifest);
    this.#revisions.set(manifest, revision);
    return revision;
  }

  #checkProgress(pods: readonly RollingPod[]): void {
    const now = this.deps.clock.now();
    const made = pods.filter(({ revision }) => revision === "new");
    const available = made.filter(({ isAvailable }) => isAvailable);
    const reached = made.length + available.length;
    if (reached > this.#progress.reached) this.#progress = { reached, at: now, isReported: false };
    const { progressDeadlineSeconds = Infinity } = this.update;
    if (this.#isOver || this.#progress.isReported || now < this.#progress.at + progressDeadlineSeconds * 1000)
      return;
    this.#progress.isReported = true;
    const namespace = this.pods[0]?.key.namespace ?? "";
    const waiting = made.filter((pod) => !available.includes(pod)).map(({ name }) => `${namespace}/${name}`);
    const why = `no progress for ${progressDeadlineSeconds} s (progressDeadlineSeconds)`;
    this.deps.report(
      `${this.name}: ${why}; not ready: ${waiting.join(", ") || "none"}; the pods of before run on`,
    );
  }

  /** The next time at which something changes although no pod does. */
  #schedule(): void {
    this.#cancelWake?.();
    this.#cancelWake = undefined;
    if (this.#isOver) return;
    const { clock, wake } = this.deps;
    const now = clock.now();
    const { minReadySeconds, progressDeadlineSeconds = Infinity } = this.update;
    const times = [...this.pods, ...this.surge].flatMap((pod) => {
      const { readiness, manifest } = this.#worker(pod) ?? {};
      if (readiness === undefined || manifest === undefined) return [];
      return readiness.since + (readiness.isReady ? minReadySeconds * 1000 : brokenAfterMs(manifest));
    });
    if (!this.#progress.isReported) times.push(this.#progress.at + progressDeadlineSeconds * 1000);
    const next = Math.min(...times.filter((time) => time > now));
    if (next !== Infinity) this.#cancelWake = clock.after(next - now, wake);
  }
}
