/** A play that runs: its pods in the charge of one kubelet, and the controllers of its jobs. */
import { ShimError, messageOf } from "../shim/lib/errors.js";
import { linkAbort } from "../shim/lib/abort.js";
import { CronRunner } from "./controllers/cron-runner.js";
import { JobRunner } from "./controllers/job-runner.js";
import { Kubelet, type KubeletDeps } from "./kubelet/kubelet.js";
import { hasEnded } from "./kubelet/pod-status.js";
import type { Manifest } from "./manifests/read-manifests.js";
import type { Job, Workloads } from "./manifests/workloads.js";
import { Application, podIsReady } from "./play.js";

export class Session implements AsyncDisposable {
  readonly kubelet: Kubelet;
  readonly #jobs = new Set<JobRunner>();
  readonly #cronJobs: CronRunner[] = [];
  #manifests: readonly Manifest[] = [];
  readonly #watchers = new Set<() => void>();
  readonly #stop = new AbortController();

  constructor(private readonly deps: KubeletDeps) {
    this.kubelet = new Kubelet(deps);
    this.kubelet.listen({
      onStatus: ({ key }) => {
        for (const runner of this.#jobs) if (runner.has(key)) this.#decide(runner);
        this.#changed();
      },
    });
  }

  /**
   * Makes everything that `workloads` asks for at first. When a pod cannot be made, everything that this call
   * has made is removed, unless `keep`.
   */
  async apply(
    workloads: Pick<Workloads, "pods" | "jobs" | "cronJobs">,
    options: { readonly keep: boolean },
    signal: AbortSignal,
  ): Promise<void> {
    using application = new Application(this.kubelet, this.deps, options);
    let isApplied = false;
    const apply = async (manifest: Manifest): Promise<void> => {
      this.#manifests = [...this.#manifests, manifest];
      if (isApplied) this.kubelet.apply(manifest, { failFast: false });
      else await application.apply(manifest, signal);
    };
    const runners = workloads.jobs.map((job) => this.#addJob(job, apply));
    await application.run(async () => {
      await Promise.all([
        ...workloads.pods.map((manifest) => apply(manifest)),
        ...runners.map((runner) => runner.start(signal)),
      ]);
    });
    isApplied = true;
    for (const cronJob of workloads.cronJobs) {
      const runner = new CronRunner(cronJob, {
        clock: this.deps.clock,
        startJob: (job) => this.#startLater(job),
        removeJob: (job) => {
          this.#removeJob(job);
        },
      });
      this.#cronJobs.push(runner);
      runner.wake();
    }
  }

  /** Resolves when all pods are ready or have succeeded, and all jobs are complete. Rejects when one cannot. */
  async ready(signal: AbortSignal): Promise<void> {
    await this.#until(signal, () => {
      const failed = [...this.#jobs].find(({ state }) => state === "failed");
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
      const status = this.kubelet.pod(key)?.status;
      return status === undefined || !podIsReady(status);
    });
    const jobs = [...this.#jobs].filter(({ state }) => state === "running").map(({ job }) => job);
    const names = [...pods.map(({ key }) => key), ...jobs].map(
      ({ namespace, name }) => `${namespace}/${name}`,
    );
    return [...new Set(names)];
  }

  /** Resolves when nothing is left to do: pods and jobs have ended. Answers whether all have succeeded. */
  async ended(signal: AbortSignal): Promise<boolean> {
    await this.#until(signal, () => {
      if (this.#cronJobs.length > 0 || [...this.#jobs].some(({ isOver }) => !isOver)) return false;
      return this.#manifests.every(({ key }) => {
        const worker = this.kubelet.pod(key);
        return worker === undefined || (worker.status !== undefined && hasEnded(worker.status));
      });
    });
    const pods = this.#pods().map(({ key }) => this.kubelet.pod(key)?.status?.phase ?? "Failed");
    return (
      pods.every((phase) => phase === "Succeeded") &&
      [...this.#jobs].every(({ state }) => state === "complete")
    );
  }

  /** All pods that were made, in order; without those that a job has removed. */
  get manifests(): readonly Manifest[] {
    return this.#manifests.filter(({ key }) => this.kubelet.pod(key) !== undefined);
  }

  /** Leaves everything as it is. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new ShimError("cancelled", "play ends"));
    for (const runner of [...this.#jobs, ...this.#cronJobs]) runner.close();
    await this.kubelet[Symbol.asyncDispose]();
  }

  /** Without the pods of jobs, whose failures are the job's to judge. */
  #pods(): readonly Manifest[] {
    return this.#manifests.filter(({ owner }) => owner?.kind !== "Job" && owner?.kind !== "CronJob");
  }

  #addJob(job: Job, apply: (manifest: Manifest) => Promise<void>): JobRunner {
    const { client, clock, report } = this.deps;
    const wake = (): void => {
      this.#decide(runner);
    };
    const runner = new JobRunner(job, { client, clock, report, kubelet: this.kubelet, wake, apply });
    this.#jobs.add(runner);
    return runner;
  }

  /** A job of a CronJob: nobody waits for its first pods. */
  #startLater(job: Job): JobRunner {
    const runner = this.#addJob(job, (manifest) => {
      this.#manifests = [...this.#manifests, manifest];
      this.kubelet.apply(manifest, { failFast: false });
      return Promise.resolve();
    });
    runner.start(this.#stop.signal).catch((error: unknown) => {
      this.#report(job, error);
    });
    return runner;
  }

  #removeJob(runner: JobRunner): void {
    this.#jobs.delete(runner);
    runner.remove(this.#stop.signal).then(
      () => {
        // A cron job may run for months.
        this.#manifests = this.manifests;
        this.#changed();
      },
      (error: unknown) => {
        this.#report(runner.job, error);
      },
    );
  }

  #decide(runner: JobRunner): void {
    runner.decide(this.#stop.signal).then(
      () => {
        this.#changed();
      },
      (error: unknown) => {
        this.#report(runner.job, error);
      },
    );
  }

  #report({ namespace, name }: Job, error: unknown): void {
    if (!this.#stop.signal.aborted) this.deps.report(`${namespace}/${name}: ${messageOf(error)}`);
  }

  #changed(): void {
    for (const watcher of this.#watchers) watcher();
  }

  /** Rejects when `condition` throws, and when `signal` aborts. */
  async #until(signal: AbortSignal, condition: () => boolean): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const end = (settle: () => void): void => {
        this.#watchers.delete(check);
        link[Symbol.dispose]();
        settle();
      };
      const check = (): void => {
        try {
          if (condition()) end(resolve);
        } catch (error) {
          end(() => {
            reject(ShimError.from(error));
          });
        }
      };
      const link = linkAbort(signal, () => {
        end(() => {
          reject(ShimError.from(signal.reason));
        });
      });
      this.#watchers.add(check);
      check();
    });
  }
}
