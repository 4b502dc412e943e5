/** The changes of workloads of a play that are under way. */
import { isDeepStrictEqual } from "node:util";
import type { PodSandbox } from "../../domain/cri.js";
import { RollingRunner, type RollingRunnerDeps } from "../controllers/rolling-runner.js";
import type { KubeletDeps } from "../kubelet/kubelet-deps.js";
import type { Kubelet } from "../kubelet/kubelet.js";
import { type Manifest, type PodKey, type UpdateStrategy, nameOf } from "../manifests/manifest.js";
import { readPodRecord } from "../node/pod-record.js";
import { playHashAnnotation } from "../pod-config/cri-config.js";
import { podRevision } from "../pod-config/hashes.js";
import { workloadName } from "../store/play-store.js";

export interface RolloutsDeps extends Pick<RollingRunnerDeps, "clock" | "report" | "onLost"> {
  readonly kubelet: Kubelet;
  readonly records: Pick<KubeletDeps, "files" | "directories">;
  /** A decision is under way. */
  readonly inBackground: (name: string, work: Promise<void>) => void;
}

interface ChangedWorkload {
  readonly name: string;
  readonly update: UpdateStrategy;
  readonly pods: readonly Manifest[];
}

/** What has to change step by step. */
export interface RolloutPlan {
  readonly changed: ReadonlyMap<string, ChangedWorkload>;
  /** By `nameOf`: what pods go on with for the time being. Undefined: they wait. */
  readonly deferred: ReadonlyMap<string, Manifest | undefined>;
}

export class Rollouts {
  readonly #runners = new Map<string, RollingRunner>();
  /** Those of changes that another one has followed. */
  #surge: readonly PodKey[] = [];

  constructor(private readonly deps: RolloutsDeps) {}

  /** Ends the changes that are under way: what is left of them is part of the result. `listed`: all sandboxes. */
  async plan(pods: readonly Manifest[], listed: readonly PodSandbox[]): Promise<RolloutPlan> {
    const before = [...this.#runners.values()];
    this.#runners.clear();
    await Promise.all(before.map((runner) => runner.close()));
    this.#surge = before.flatMap(({ surge }) => surge).map(({ key }) => key);
    const workloads = new Map<string, ChangedWorkload>();
    for (const pod of pods) {
      const { owner, update, key } = pod;
      if (owner === undefined || update === undefined) continue;
      const { namespace } = key;
      const id = workloadName({ ...owner, namespace });
      const present = workloads.get(id);
      const name = nameOf({ ...owner, namespace });
      workloads.set(id, { name, update, pods: [...(present?.pods ?? []), pod] });
    }
    const taken = new Set(pods.map(({ key }) => nameOf(key)));
    const up = new Set(
      listed
        .filter(({ annotations }) => annotations[playHashAnnotation] !== undefined)
        .map(({ metadata }) => metadata?.uid),
    );
    const changed = new Map<string, ChangedWorkload>();
    const deferred = new Map<string, Manifest | undefined>();
    for (const [id, workload] of workloads) {
      const surge: Manifest[] = [];
      for (const pod of workload.update.surge)
        if (!taken.has(nameOf(pod.key)) && !(await this.#isOfAnother(pod))) surge.push(pod);
      const made = new Map<Manifest, Manifest>();
      for (const pod of [...workload.pods, ...surge]) {
        const is = await this.#present(pod, up);
        if (is === undefined) continue;
        const isSame = podRevision(is) === podRevision(pod);
        if (!isSame || surge.includes(pod)) made.set(pod, isSame ? pod : is);
      }
      if (made.size === 0) continue;
      changed.set(id, { ...workload, update: { ...workload.update, surge } });
      for (const [{ key }, is] of made) deferred.set(nameOf(key), is);
      if (workload.update.type !== "Recreate") continue;
      // None is made before all of the old ones are gone.
      for (const { key } of workload.pods)
        if (!deferred.has(nameOf(key)) && this.deps.kubelet.pod(key) === undefined && !up.has(key.uid))
          deferred.set(nameOf(key), undefined);
    }
    return { changed, deferred };
  }

  /** Call it once the kubelet has the deferred pods. Answers pods of changes of before that no change needs any more. */
  start({ changed, deferred }: RolloutPlan): readonly PodKey[] {
    for (const [id, { name, update, pods }] of changed) {
      const { kubelet, clock, report, onLost, inBackground } = this.deps;
      const wake = (): void => inBackground(name, this.#decide(id, runner));
      const runner = new RollingRunner(name, update, pods, { kubelet, clock, report, onLost, wake });
      this.#runners.set(id, runner);
      inBackground(
        name,
        runner.start().then(() => this.#decide(id, runner)),
      );
    }
    return this.#surge.filter(
      (key) => !deferred.has(nameOf(key)) && this.deps.kubelet.pod(key) !== undefined,
    );
  }

  get areUnderWay(): boolean {
    return this.#runners.size > 0;
  }

  /** Something of the pod may have changed. */
  changed(key: PodKey): void {
    for (const [id, runner] of this.#runners)
      if (runner.has(key)) this.deps.inBackground(nameOf(key), this.#decide(id, runner));
  }

  /** Whether the pod is not yet what it is to become. */
  awaits(key: PodKey): boolean {
    return [...this.#runners.values()].some((runner) => runner.awaits(key));
  }

  /** Another play has the pod, or has removed it: it goes on with the change, or there is none. */
  lose(key: PodKey): void {
    for (const [id, runner] of this.#runners) {
      if (!runner.has(key)) continue;
      this.#runners.delete(id);
      if (this.deps.kubelet.pod(key)?.loss === "removed")
        this.deps.report(
          `${runner.name}: changes no further, because ${nameOf(key)} was removed; play again`,
        );
      this.deps.inBackground(runner.name, this.#leave(runner));
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#runners.values()].map((runner) => runner.close()));
  }

  async #leave(runner: RollingRunner): Promise<void> {
    await runner.close();
    await Promise.all(runner.surge.map(({ key }) => this.deps.kubelet.forget(key)));
  }

  async #decide(id: string, runner: RollingRunner): Promise<void> {
    await runner.decide();
    if (runner.isOver && this.#runners.get(id) === runner) this.#runners.delete(id);
  }

  /** Whether a workload of another name has a pod of this one, also in another play. */
  async #isOfAnother({ key, owner }: Manifest): Promise<boolean> {
    try {
      const is = await readPodRecord(key.uid, this.deps.records);
      return is !== undefined && !isDeepStrictEqual(is.owner, owner);
    } catch {
      return true; // It cannot be told, and pods of a change are removed at its end.
    }
  }

  /** What the pod was made from; undefined when it is not there, or that is not known. */
  async #present({ key }: Manifest, up: ReadonlySet<string | undefined>): Promise<Manifest | undefined> {
    const worker = this.deps.kubelet.pod(key);
    if (worker !== undefined) return worker.manifest;
    if (!up.has(key.uid)) return undefined;
    // A record that is damaged keeps nothing.
    return readPodRecord(key.uid, this.deps.records).catch(() => undefined);
  }
}
