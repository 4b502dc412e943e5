/** Keeps one CronJob: starts and removes its jobs by the decisions of cron-jobs.ts. */
import type { Job, CronJob } from "../manifests/workloads.js";
import type { Clock } from "../kubelet/clock.js";
import { type CronMemory, type StartedJob, decideCronJob, startOf, startedJob } from "./cron-jobs.js";
import { parseSchedule } from "../manifests/cron-schedule.js";
import type { JobRunner } from "./job-runner.js";

export interface CronRunnerDeps {
  readonly clock: Clock;
  readonly startJob: (job: Job) => JobRunner;
  /** Begins to remove a job with its pods. */
  readonly removeJob: (job: JobRunner) => void;
}

export class CronRunner {
  readonly #started = new Map<string, { readonly runner: JobRunner; readonly dueAt: number }>();
  #memory: CronMemory;
  #cancelWake: (() => void) | undefined;
  #isClosed = false;
  #cronJob: CronJob;

  constructor(
    cronJob: CronJob,
    private readonly deps: CronRunnerDeps,
  ) {
    this.#cronJob = cronJob;
    this.#memory = { checkedUntil: deps.clock.now() };
  }

  get cronJob(): CronJob {
    return this.#cronJob;
  }

  /** Whether it has started the job. */
  has(runner: JobRunner): boolean {
    return [...this.#started.values()].some((entry) => entry.runner === runner);
  }

  /** Takes up jobs of an earlier play, before it begins. `names`: of all jobs of its owner that have pods. */
  adopt(names: ReadonlySet<string>): void {
    for (const name of names) {
      const dueAt = startOf(this.#cronJob, name);
      if (dueAt === undefined) continue;
      this.#start(name, dueAt);
      // Also after the clock was set back.
      this.#memory = { checkedUntil: Math.max(this.#memory.checkedUntil, dueAt) };
    }
  }

  /** Begins, or goes on with a schedule that has changed. Jobs that run are left alone. */
  update(cronJob: CronJob): void {
    this.#cronJob = cronJob;
    this.wake();
  }

  /** Each wake-up plans the next one. */
  wake(): void {
    if (this.#isClosed) return;
    this.#cancelWake?.();
    const { clock } = this.deps;
    const cronJob = this.#cronJob;
    const schedule = parseSchedule(cronJob.schedule, cronJob.timeZone);
    const started = [...this.#started].map(([name, { runner, dueAt }]): StartedJob => ({
      name,
      dueAt,
      state: runner.state,
    }));
    const decision = decideCronJob(cronJob, schedule, started, this.#memory, clock.now());
    this.#memory = decision.memory;
    this.#cancelWake = clock.after(decision.wakeAt - clock.now(), () => this.wake());
    for (const name of decision.remove) {
      const entry = this.#started.get(name);
      this.#started.delete(name);
      if (entry !== undefined) this.deps.removeJob(entry.runner);
    }
    if (decision.start === undefined) return;
    const { name, dueAt } = decision.start;
    this.#start(name, dueAt);
  }

  /** The end of a job may begin the next one, and end the time of older ones. */
  #start(name: string, dueAt: number): void {
    const runner = this.deps.startJob(startedJob(this.#cronJob, name));
    this.#started.set(name, { runner, dueAt });
    runner.onEnd(() => this.wake());
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelWake?.();
  }
}
