/** A play that runs: its pods in the charge of one kubelet, and the controllers of its jobs. */
import type { PodSandbox } from "../../domain/cri.js";
import { ShimError, messageOf } from "../../lib/errors.js";
import { refuseUnserved } from "../pod-config/server-features.js";
import { refuseChangedJobs } from "../controllers/changed-jobs.js";
import { type JobEnvironment, isSameJob, removeSurely } from "../controllers/job-runner.js";
import { Kubelet } from "../kubelet/kubelet.js";
import type { KubeletDeps } from "../kubelet/kubelet-deps.js";
import { hasEnded } from "../pod-rules/pod-status.js";
import { presentPods, refuseSharedUids } from "./listed-pods.js";
import { takenOver } from "../kubelet/pod-turns.js";
import { type PodKey, nameOf } from "../manifests/manifest.js";
import type { Manifest } from "../manifests/read-manifests.js";
import type { Workloads } from "../manifests/workloads.js";
import type { ServicesDeps } from "../services/services.js";
import { Application } from "./application.js";
import { PlayJobs } from "./play-jobs.js";
import { type RolloutPlan, Rollouts } from "./rollouts.js";
import { WaitingPods } from "./waiting-pods.js";
import { namesOf } from "../store/play-store.js";
import { linkAbort } from "../../lib/abort.js";

/** What a play needs: its kubelet, and its Services. */
export interface PlayDeps extends KubeletDeps {
  readonly redirect?: NonNullable<ServicesDeps["redirect"]>;
}

type Wanted = Pick<Workloads, "pods" | "jobs" | "cronJobs">;

export class Session implements AsyncDisposable {
  readonly kubelet: Kubelet;
  readonly #environment: JobEnvironment;
  readonly #jobs: PlayJobs;
  #manifests: readonly Manifest[] = [];
  readonly #waiting: WaitingPods;
  #hasLost = false;
  readonly #rollouts: Rollouts;
  readonly #watchers = new Watchers();
  readonly #stop = new AbortController();

  constructor(private readonly deps: KubeletDeps) {
    this.kubelet = new Kubelet(deps);
    this.#waiting = new WaitingPods(this.kubelet, deps.clock);
    this.#rollouts = new Rollouts({
      ...{ kubelet: this.kubelet, records: deps, clock: deps.clock, report: deps.report },
      onLost: (key) => this.#lose(key),
      inBackground: (name, work) => this.#inBackground(name, work),
    });
    const { client, clock, report } = deps;
    this.#environment = { client, clock, report, kubelet: this.kubelet };
    this.#jobs = new PlayJobs({
      ...{ ...this.#environment, records: deps, signal: this.#stop.signal },
      onPod: (manifest) => {
        this.#manifests = [...this.#manifests, manifest];
        this.kubelet.apply(manifest, { failFast: false });
      },
      onRemoved: () => {
        // A cron job may run for months.
        this.#manifests = this.manifests;
        this.#watchers.changed();
      },
      onError: (name, error) => this.#report(name, error),
      inBackground: (name, work) => this.#inBackground(name, work),
    });
    this.kubelet.listen({
      onEvent: ({ key, reason }) => {
        if (reason === takenOver) this.#lose(key);
      },
      onStatus: ({ key }) => this.#changed(key),
    });
  }

  #changed(key: PodKey): void {
    this.#waiting.start();
    this.#rollouts.changed(key);
    this.#jobs.changed(key);
    this.#watchers.changed();
  }

  /**
   * Makes everything that `workloads` asks for at first: all pods but those that wait for another one, and those
   * of changed workloads, which change later. When a pod cannot be made, everything that this call has made is
   * removed, unless `keep`. Call it once, before `update`.
   */
  async apply(workloads: Wanted, options: { readonly keep: boolean }, signal: AbortSignal): Promise<void> {
    const jobs = [...workloads.jobs, ...workloads.cronJobs.map(({ job }) => job)];
    refuseUnserved([...workloads.pods, ...jobs.map(({ template }) => template)], this.deps.features);
    const hasPods = workloads.pods.length > 0 || workloads.jobs.length > 0;
    const listed = hasPods ? await this.deps.client.listPodSandboxes({}, signal) : [];
    refuseSharedUids(workloads.pods, listed);
    refuseChangedJobs(workloads.jobs, listed);
    await using application = new Application(this.kubelet, this.deps, options, signal);
    const apply = (manifest: Manifest, before?: readonly PodSandbox[]): Promise<void> => {
      this.#manifests = [...this.#manifests, manifest];
      return application.apply(manifest, before);
    };
    const plan = await this.#rollouts.plan(workloads.pods, listed);
    const now = workloads.pods.filter(({ key }) => !plan.deferred.has(nameOf(key)));
    const later = now.filter(({ startsAfter }) => startsAfter !== undefined);
    const present = presentPods(later, listed);
    const runners = workloads.jobs.map((job) =>
      this.#jobs.add(job, { apply: (manifest) => apply(manifest) }),
    );
    await Promise.all([
      ...now.filter((manifest) => !later.includes(manifest)).map((one) => apply(one, listed)),
      ...runners.map((runner) => runner.start(signal)),
    ]);
    const ran = workloads.cronJobs.length > 0 ? await this.deps.client.listPodSandboxes({}, signal) : [];
    application.commit();
    const deferred = workloads.pods.filter((manifest) => !now.includes(manifest));
    this.#manifests = [...this.#manifests, ...later, ...deferred];
    for (const manifest of later)
      if (present.has(manifest.key.uid)) this.kubelet.apply(manifest, { failFast: false });
    this.#waiting.replace(later.filter((manifest) => !present.has(manifest.key.uid)));
    for (const { key, startsAfter: name = "" } of later)
      if (this.kubelet.pod({ namespace: key.namespace, name })?.loss !== undefined) this.#lose(key);
    this.#keepDeferred(plan);
    this.#rollouts.start(plan);
    this.#jobs.updateCronJobs(workloads.cronJobs, ran);
  }

  /**
   * Keeps from now on what `workloads` asks for, as a kubelet and the controllers do: nothing is undone, and
   * what fails is tried again. What it does not ask for any more is removed, or left to another play.
   */
  async update(
    workloads: Wanted,
    { obsolete }: { readonly obsolete: "remove" | "leave" },
    signal: AbortSignal,
  ): Promise<void> {
    const isNew = ({ key }: Manifest): boolean => this.kubelet.pod(key) === undefined;
    const isLater = workloads.pods.filter(isNew).some(({ startsAfter, update }) => startsAfter ?? update);
    const isCronNew = workloads.cronJobs.some((one) => !this.#jobs.hasCronJob(one));
    const listed = isLater || isCronNew ? await this.deps.client.listPodSandboxes({}, signal) : [];
    const present = presentPods(workloads.pods.filter(isNew), listed);
    const plan = await this.#rollouts.plan(workloads.pods, listed);
    const wanted = new Set(workloads.pods.map(({ key }) => nameOf(key)));
    const old = this.#pods().filter(({ key }) => !wanted.has(nameOf(key)));
    const ofJobs = this.#manifests.filter((manifest) => !this.#pods().includes(manifest));
    this.#manifests = [...workloads.pods, ...ofJobs];
    this.#hasLost = false;
    const later: Manifest[] = [];
    this.#keepDeferred(plan);
    for (const manifest of workloads.pods.filter(({ key }) => !plan.deferred.has(nameOf(key)))) {
      const isThere = !isNew(manifest) || present.has(manifest.key.uid);
      if (manifest.startsAfter !== undefined && !isThere) later.push(manifest);
      else this.kubelet.apply(manifest, { failFast: false });
    }
    this.#waiting.replace(later);
    const end = async (key: PodKey): Promise<void> => {
      if (obsolete === "leave" || (await this.kubelet.pod(key)?.isLost())) await this.kubelet.forget(key);
      else await removeSurely(key, this.#environment, signal);
    };
    const { runners } = this.#jobs;
    const oldRunners = this.#jobs.dropObsolete(workloads);
    this.#jobs.updateCronJobs(workloads.cronJobs, listed);
    const surge = this.#rollouts.start(plan);
    await Promise.all([
      ...[...old.map(({ key }) => key), ...surge].map((key) => end(key)),
      ...oldRunners.map((runner) => (obsolete === "leave" ? runner.leave() : runner.remove(signal))),
    ]);
    for (const job of workloads.jobs)
      if (!runners.some((runner) => isSameJob(runner.job, job))) this.#jobs.startLater(job);
    this.#watchers.changed();
  }

  /** Resolves when all pods are ready or have succeeded, and all jobs are complete. Rejects when one cannot. */
  async ready(signal: AbortSignal): Promise<void> {
    await this.#watchers.until(signal, () => {
      const failed = this.#jobs.runners.find(({ state }) => state === "failed");
      if (failed !== undefined)
        throw new ShimError("precondition", `job "${failed.job.namespace}/${failed.job.name}" has failed`);
      for (const { key } of this.#pods()) {
        if (this.kubelet.pod(key)?.status?.phase === "Failed")
          throw new ShimError("precondition", `pod "${key.namespace}/${key.name}" has failed`);
      }
      return this.unready().length === 0;
    });
  }

  /** `default/web` of all pods and jobs that `ready` waits for. */
  unready(): readonly string[] {
    const pods = this.#pods().filter(({ key }) => {
      return this.kubelet.pod(key)?.readiness?.isReady !== true || this.#rollouts.awaits(key);
    });
    const jobs = this.#jobs.runners.filter(({ state }) => state === "running").map(({ job }) => job);
    const names = [...pods.map(({ key }) => key), ...jobs].map(
      ({ namespace, name }) => `${namespace}/${name}`,
    );
    return [...new Set(names)];
  }

  /** Pods that are made once the pod before them is ready. */
  get waiting(): readonly PodKey[] {
    return this.#waiting.keys;
  }

  /** Resolves when nothing is left to do: pods and jobs have ended. Answers whether all have succeeded. */
  async ended(signal: AbortSignal): Promise<boolean> {
    await this.#watchers.until(signal, () => {
      const { cronJobs, runners } = this.#jobs;
      if (cronJobs.length > 0 || runners.some(({ isAtRest }) => !isAtRest)) return false;
      if (this.waiting.length > 0 || this.#rollouts.areUnderWay) return false;
      return this.#manifests.every(({ key }) => {
        const worker = this.kubelet.pod(key);
        return worker === undefined || (worker.status !== undefined && hasEnded(worker.status));
      });
    });
    const pods = this.#pods().map(({ key }) => this.kubelet.pod(key)?.status?.phase ?? "Failed");
    return (
      pods.every((phase) => phase === "Succeeded") &&
      this.#jobs.runners.every(({ state }) => state === "complete" || state === "suspended")
    );
  }

  /** Names (see `workloadName`) of what no other play has taken or removed. */
  async kept(): Promise<ReadonlySet<string>> {
    for (const { key } of this.#manifests) if (await this.kubelet.pod(key)?.isLost()) this.#lose(key);
    // Those that a CronJob has started have names of their own.
    const jobs = this.#jobs.runners
      .map(({ job }) => job)
      .filter(({ name, template }) => name === template.owner.name);
    return namesOf({ pods: this.#pods(), jobs, cronJobs: this.#jobs.cronJobs });
  }

  /** Whether another play has taken pods since the last `update`. */
  get hasLost(): boolean {
    return this.#hasLost;
  }

  /** All pods that were made, in order; without those that a job has removed. */
  get manifests(): readonly Manifest[] {
    return this.#manifests.filter(({ key }) => this.kubelet.pod(key) !== undefined);
  }

  /** Leaves everything as it is. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new ShimError("cancelled", "play ends"));
    this.#jobs.close();
    this.#waiting.close();
    await this.#rollouts.close();
    await this.kubelet[Symbol.asyncDispose]();
  }

  /** Without the pods of jobs, whose failures are the job's to judge. */
  #pods(): readonly Manifest[] {
    return this.#manifests.filter(({ owner }) => owner?.kind !== "Job" && owner?.kind !== "CronJob");
  }

  /** Another play has the pod now, or has removed it; with it goes the job that has made it. */
  #lose(key: PodKey): void {
    this.#hasLost = true;
    this.#rollouts.lose(key);
    this.#jobs.lose(key);
    this.#manifests = this.#manifests.filter((manifest) => nameOf(manifest.key) !== nameOf(key));
    // Those that wait for it would wait for ever.
    for (const next of this.#waiting.drop(key)) this.#lose(next);
    this.#watchers.changed();
  }

  /** Pods of changed workloads go on as they are, until it is their turn. */
  #keepDeferred({ deferred }: RolloutPlan): void {
    for (const manifest of deferred.values())
      if (manifest !== undefined) this.kubelet.apply(manifest, { failFast: false });
  }

  #inBackground(name: string, work: Promise<void>): void {
    work.then(
      () => this.#watchers.changed(),
      (error: unknown) => this.#report(name, error),
    );
  }

  #report(name: string, error: unknown): void {
    if (!this.#stop.signal.aborted) this.deps.report(`${name}: ${messageOf(error)}`);
  }
}

/** Waits for conditions that are looked at after each change. */
class Watchers {
  readonly #checks = new Set<() => void>();

  /** Something that a condition may depend on has changed. */
  readonly changed = (): void => {
    for (const check of this.#checks) check();
  };

  /** Resolves when `condition` holds. Rejects when it throws, and when `signal` aborts. */
  async until(signal: AbortSignal, condition: () => boolean): Promise<void> {
    if (signal.aborted) throw ShimError.from(signal.reason);
    await new Promise<void>((resolve, reject) => {
      const end = (settle: () => void): void => {
        this.#checks.delete(check);
        link[Symbol.dispose]();
        settle();
      };
      const check = (): void => {
        try {
          if (condition()) end(resolve);
        } catch (error) {
          end(() => reject(ShimError.from(error)));
        }
      };
      const link = linkAbort(signal, () => end(() => reject(ShimError.from(signal.reason))));
      this.#checks.add(check);
      check();
    });
  }
}
