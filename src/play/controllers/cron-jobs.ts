/** What a CronJob does next. The rules are those of Kubernetes' cron job controller. Pure. */
import type { CronJob, Job } from "../manifests/workloads.js";
import { type CronSchedule, lastDue } from "../manifests/cron-schedule.js";

/** A job that the CronJob has started. */
export interface StartedJob {
  readonly name: string;
  readonly state: "running" | "complete" | "failed" | "suspended";
  /** Milliseconds: the minute for which it was started. */
  readonly dueAt: number;
}

/** What is carried from one decision to the next. */
export interface CronMemory {
  /** Milliseconds. At first: when play began to look after the CronJob. */
  readonly checkedUntil: number;
  /** A start that is due, but must wait for a job that runs. */
  readonly due?: number;
}

export interface CronDecision {
  readonly start?: { readonly name: string; readonly dueAt: number };
  /** Names of jobs to remove with their pods: those that are replaced, and old ones. */
  readonly remove: readonly string[];
  readonly memory: CronMemory;
  /** Milliseconds. */
  readonly wakeAt: number;
}

const minuteMs = 60_000;

/** `now`: milliseconds. */
export function decideCronJob(
  cronJob: CronJob,
  schedule: CronSchedule,
  started: readonly StartedJob[],
  memory: CronMemory,
  now: number,
): CronDecision {
  const wakeAt = (Math.floor(now / minuteMs) + 1) * minuteMs;
  const remove = oldJobs(cronJob, started);
  const due = lastDue(schedule, memory.checkedUntil, now) ?? memory.due;
  // A clock that was set back must not start again what it has started.
  const checked = { checkedUntil: Math.max(memory.checkedUntil, now) };
  const { startingDeadlineSeconds } = cronJob;
  const isTooLate =
    due !== undefined && startingDeadlineSeconds !== undefined && now - due > startingDeadlineSeconds * 1000;
  if (due === undefined || isTooLate) return { remove, memory: checked, wakeAt };
  if (cronJob.isSuspended) return { remove, memory: { ...checked, due }, wakeAt };

  // A job whose template is suspended waits, too.
  const running = started.filter(({ state }) => state === "running" || state === "suspended");
  if (running.length > 0 && cronJob.concurrencyPolicy === "Forbid")
    return { remove, memory: { ...checked, due }, wakeAt };
  const replaced = cronJob.concurrencyPolicy === "Replace" ? running.map(({ name }) => name) : [];
  const start = { name: `${cronJob.name}-${due / minuteMs}`, dueAt: due };
  return { start, remove: [...remove, ...replaced], memory: checked, wakeAt };
}

/** For which minute the CronJob has started a job of this name; undefined for a job of another one. */
export function startOf({ name }: CronJob, job: string): number | undefined {
  const [, minutes] = job.startsWith(`${name}-`)
    ? (/^([1-9]\d{0,8})$/.exec(job.slice(name.length + 1)) ?? [])
    : [];
  return minutes === undefined ? undefined : Number(minutes) * minuteMs;
}

/** The job for one start. */
export function startedJob({ job }: CronJob, name: string): Job {
  return { ...job, name };
}

/** Ended jobs beyond the numbers that are kept, oldest first. */
function oldJobs(cronJob: CronJob, started: readonly StartedJob[]): readonly string[] {
  const beyond = (state: StartedJob["state"], kept: number): readonly string[] =>
    started
      .filter((one) => one.state === state)
      .sort((left, right) => right.dueAt - left.dueAt)
      .slice(kept)
      .map(({ name }) => name)
      .reverse();
  return [
    ...beyond("complete", cronJob.successfulJobsHistoryLimit),
    ...beyond("failed", cronJob.failedJobsHistoryLimit),
  ];
}
