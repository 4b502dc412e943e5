/** The jobs of a play, and those that its CronJobs have started. */
import type { PodSandbox } from "../../domain/cri.js";
import { CronRunner } from "../controllers/cron-runner.js";
import { type JobEnvironment, JobRunner, type JobRunnerDeps, isSameJob } from "../controllers/job-runner.js";
import { pause } from "../kubelet/clock.js";
import { type PodKey, nameOf } from "../manifests/manifest.js";
import { podUid } from "../manifests/names.js";
import type { Manifest } from "../manifests/read-manifests.js";
import type { CronJob, Job, ObjectKey, Workloads } from "../manifests/workloads.js";
import { type PodRecordDeps, readPodRecord } from "../node/pod-record.js";
import { jobNameLabel, playHashAnnotation, playOwnerAnnotation } from "../pod-config/cri-config.js";

/** Between two tries to start a job. */
const retryMs = 10_000;

export interface PlayJobsDeps extends JobEnvironment {
  readonly records: PodRecordDeps;
  /** A job that no call waits for makes a pod. */
  readonly onPod: (manifest: Manifest) => void;
  /** A job that a CronJob has started is gone with its pods. */
  readonly onRemoved: () => void;
  readonly onError: (name: string, error: unknown) => void;
  /** A decision is under way. */
  readonly inBackground: (name: string, work: Promise<void>) => void;
  /** Aborts when the play ends. */
  readonly signal: AbortSignal;
}

export class PlayJobs {
  readonly #runners = new Set<JobRunner>();
  #cronJobs: readonly CronRunner[] = [];

  constructor(private readonly deps: PlayJobsDeps) {}

  get runners(): readonly JobRunner[] {
    return [...this.#runners];
  }

  get cronJobs(): readonly CronJob[] {
    return this.#cronJobs.map(({ cronJob }) => cronJob);
  }

  add(job: Job, deps: Pick<JobRunnerDeps, "apply" | "kept">): JobRunner {
    const wake = (): void => this.#decide(runner);
    const runner = new JobRunner(job, { ...this.deps, ...deps, wake });
    this.#runners.add(runner);
    return runner;
  }

  /** No call waits for its first pods. */
  startLater(job: Job): JobRunner {
    return this.#startLater(job, { keepsPods: false });
  }

  /** Something of the pod may have changed. */
  changed(key: PodKey): void {
    for (const runner of this.#runners) if (runner.has(key)) this.#decide(runner);
  }

  /** Forgets the jobs that are not among these any more, and answers them. */
  dropObsolete({ jobs, cronJobs }: Pick<Workloads, "jobs" | "cronJobs">): readonly JobRunner[] {
    const obsolete = this.runners.filter((runner) => {
      const cronJob = this.#cronJobs.find((one) => one.has(runner))?.cronJob;
      if (cronJob !== undefined) return !cronJobs.some((one) => isSameObject(one, cronJob));
      return !jobs.some((one) => isSameJob(one, runner.job));
    });
    for (const runner of obsolete) this.#runners.delete(runner);
    return obsolete;
  }

  /** Another play has the pod now, or has removed it; with it goes the job that has made it. */
  lose(key: PodKey): void {
    for (const runner of this.runners.filter((one) => one.has(key))) {
      this.#runners.delete(runner);
      for (const cronJob of this.#cronJobs) if (cronJob.has(runner)) cronJob.close();
      this.#cronJobs = this.#cronJobs.filter((cronJob) => !cronJob.has(runner));
      this.deps.inBackground(nameOf(runner.job), runner.leave());
    }
  }

  hasCronJob(cronJob: CronJob): boolean {
    return this.#cronRunner(cronJob) !== undefined;
  }

  /** `listed`: all sandboxes of the server, for CronJobs that are new here. */
  updateCronJobs(cronJobs: readonly CronJob[], listed: readonly PodSandbox[]): void {
    const kept = cronJobs.map((cronJob) => this.#cronRunner(cronJob));
    for (const runner of this.#cronJobs) if (!kept.includes(runner)) runner.close();
    this.#cronJobs = cronJobs.map((cronJob, number) => {
      const runner = kept[number] ?? this.#newCronRunner(cronJob);
      if (kept[number] === undefined) runner.adopt(jobsOf(cronJob, listed));
      runner.update(cronJob);
      return runner;
    });
  }

  close(): void {
    for (const runner of [...this.#runners, ...this.#cronJobs]) runner.close();
  }

  /** `keepsPods`: those that are there keep their manifests. */
  #startLater(job: Job, { keepsPods }: { readonly keepsPods: boolean }): JobRunner {
    const runner = this.add(job, {
      apply: (manifest) => {
        this.deps.onPod(manifest);
        return Promise.resolve();
      },
      ...(keepsPods ? { kept: (uid) => this.#kept(uid) } : {}),
    });
    void this.#start(runner);
    return runner;
  }

  /** A record that is damaged keeps nothing. */
  async #kept(uid: string): Promise<Manifest | undefined> {
    if (podUid(uid) !== undefined) return undefined; // It comes from the CRI, and is part of a path.
    return readPodRecord(uid, this.deps.records).catch(() => undefined);
  }

  /** Never rejects: a server that does not answer may come back. */
  async #start(runner: JobRunner): Promise<void> {
    const { signal, clock, onError } = this.deps;
    while (this.#runners.has(runner)) {
      try {
        await runner.start(signal);
        return;
      } catch (error) {
        if (signal.aborted) return;
        onError(nameOf(runner.job), error);
      }
      await pause(retryMs, clock, signal);
    }
  }

  #decide(runner: JobRunner): void {
    this.deps.inBackground(nameOf(runner.job), runner.decide(this.deps.signal));
  }

  #cronRunner(cronJob: CronJob): CronRunner | undefined {
    return this.#cronJobs.find((runner) => isSameObject(cronJob, runner.cronJob));
  }

  #newCronRunner(cronJob: CronJob): CronRunner {
    return new CronRunner(cronJob, {
      clock: this.deps.clock,
      startJob: (job) => this.#startLater(job, { keepsPods: true }),
      removeJob: (runner) => {
        this.#runners.delete(runner);
        runner
          .remove(this.deps.signal)
          .then(this.deps.onRemoved, (error: unknown) => this.deps.onError(nameOf(runner.job), error));
      },
    });
  }
}

/** Names of the jobs that have been started for a CronJob, by their pods. */
function jobsOf({ namespace, name }: CronJob, listed: readonly PodSandbox[]): ReadonlySet<string> {
  const own = listed.filter(
    ({ metadata, annotations }) =>
      metadata?.namespace === namespace &&
      annotations[playHashAnnotation] !== undefined &&
      annotations[playOwnerAnnotation] === `CronJob/${name}`,
  );
  return new Set(own.map(({ labels }) => labels[jobNameLabel] ?? ""));
}

function isSameObject(left: ObjectKey, right: ObjectKey): boolean {
  return nameOf(left) === nameOf(right);
}
