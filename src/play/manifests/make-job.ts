/** Jobs and CronJobs, with Kubernetes' defaults, checked by the rules of its own validation. */
import { type Item, type ItemPlace, originOf } from "./collect.js";
import { type Problem, type TypeOf, malformed } from "./schema.js";
import type { JobSpec, cronJob } from "./workload-schema.js";
import type { CronJob, Job, PodTemplate } from "./workloads.js";

const defaultBackoffLimit = 6;

/** `at`: path of the spec of the job. */
export function makeJob(
  item: ItemPlace,
  spec: JobSpec,
  template: PodTemplate,
  at: string,
  problems: Problem[],
): Job {
  const report = (path: string, reason: string): void => {
    problems.push(malformed(`${at}.${path}`, reason));
  };
  const isIndexed = spec.completionMode === "Indexed";
  const { parallelism, backoffLimitPerIndex, maxFailedIndexes } = spec;
  // Without both numbers there is one pod. With parallelism alone the pods share a queue of work.
  const completions = spec.completions ?? (parallelism === undefined ? 1 : undefined);
  if (isIndexed && spec.completions === undefined) report("completions", "is missing: the mode is Indexed");
  if (!isIndexed && backoffLimitPerIndex !== undefined) {
    report("backoffLimitPerIndex", "is only for completionMode: Indexed");
  }
  if (maxFailedIndexes !== undefined && backoffLimitPerIndex === undefined) {
    report("maxFailedIndexes", "needs backoffLimitPerIndex");
  }
  const policy = template.pod.spec.restartPolicy;
  if (policy !== "Never" && policy !== "OnFailure") {
    report("template.spec.restartPolicy", "must be Never or OnFailure for a job");
  }
  if (backoffLimitPerIndex !== undefined && policy === "OnFailure") {
    report("backoffLimitPerIndex", "needs restartPolicy: Never");
  }
  return {
    ...originOf(item),
    parallelism: parallelism ?? 1,
    completions,
    isIndexed,
    backoffLimit: spec.backoffLimit ?? (backoffLimitPerIndex === undefined ? defaultBackoffLimit : Infinity),
    backoffLimitPerIndex,
    maxFailedIndexes,
    activeDeadlineSeconds: spec.activeDeadlineSeconds,
    isSuspended: spec.suspend ?? false,
    template,
  };
}

export function makeCronJob(item: Item<TypeOf<typeof cronJob>>, job: Job): CronJob {
  const { spec } = item.value;
  return {
    ...originOf(item),
    schedule: spec.schedule,
    timeZone: spec.timeZone,
    concurrencyPolicy: spec.concurrencyPolicy ?? "Allow",
    startingDeadlineSeconds: spec.startingDeadlineSeconds,
    isSuspended: spec.suspend ?? false,
    successfulJobsHistoryLimit: spec.successfulJobsHistoryLimit ?? 3,
    failedJobsHistoryLimit: spec.failedJobsHistoryLimit ?? 1,
    job,
  };
}
