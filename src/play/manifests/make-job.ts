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
  if (!isIndexed && backoffLimitPerIndex !== undefined)
    report("backoffLimitPerIndex", "is only for completionMode: Indexed");
  if (maxFailedIndexes !== undefined && backoffLimitPerIndex === undefined)
    report("maxFailedIndexes", "needs backoffLimitPerIndex");
  const policy = template.pod.spec.restartPolicy;
  if (policy !== "Never" && policy !== "OnFailure")
    report("template.spec.restartPolicy", "must be Never or OnFailure for a job");
  if (backoffLimitPerIndex !== undefined && policy === "OnFailure")
    report("backoffLimitPerIndex", "needs restartPolicy: Never");
  checkFailurePolicy(spec, template, report);
  return {
    ...originOf(item),
    parallelism: parallelism ?? 1,
    completions,
    isIndexed,
    backoffLimit: spec.backoffLimit ?? (backoffLimitPerIndex === undefined ? defaultBackoffLimit : Infinity),
    backoffLimitPerIndex,
    maxFailedIndexes,
    failureRules: spec.podFailurePolicy?.rules ?? [],
    activeDeadlineSeconds: spec.activeDeadlineSeconds,
    isSuspended: spec.suspend ?? false,
    template,
  };
}

function checkFailurePolicy(
  { podFailurePolicy, podReplacementPolicy = "Failed", backoffLimitPerIndex }: JobSpec,
  { pod: { spec } }: PodTemplate,
  report: (path: string, reason: string) => void,
): void {
  if (podFailurePolicy === undefined) return;
  if (spec.restartPolicy === "OnFailure") report("podFailurePolicy", "needs restartPolicy: Never");
  if (podReplacementPolicy !== "Failed")
    report("podReplacementPolicy", "must be Failed with podFailurePolicy");
  const names = [...spec.containers, ...(spec.initContainers ?? [])].map(({ name }) => name);
  podFailurePolicy.rules.forEach(({ action, onExitCodes, onPodConditions = [] }, index) => {
    const at = `podFailurePolicy.rules[${index}]`;
    if (action === "FailIndex" && backoffLimitPerIndex === undefined)
      report(`${at}.action`, "FailIndex needs backoffLimitPerIndex");
    if ((onExitCodes === undefined) === (onPodConditions.length === 0))
      report(at, "must have either onExitCodes or onPodConditions");
    if (onExitCodes === undefined) return;
    const { containerName, operator, values } = onExitCodes;
    if (containerName !== undefined && !names.includes(containerName))
      report(
        `${at}.onExitCodes.containerName`,
        `${JSON.stringify(containerName)} is no container of the pod`,
      );
    const isInOrder = values.every((value, place) => place === 0 || value > (values[place - 1] ?? value));
    if (values.length === 0 || !isInOrder)
      report(`${at}.onExitCodes.values`, "must be one or more, in ascending order");
    if (operator === "In" && values.includes(0))
      report(`${at}.onExitCodes.values`, "must not have 0 with the operator In: it is no failure");
  });
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
