/** What the pods of a Job say of the Job that has made them: play keeps no Job but its pods. Pure. */
import { isDeepStrictEqual } from "node:util";
import { hashOf } from "./hash-of.js";
import { notNegative } from "./readers.js";
import { type TypeOf, boolean, list, mandatory, object, string } from "./schema.js";
import { failureRule } from "./workload-schema.js";
import type { Job } from "./workloads.js";

const readMark = object({
  template: mandatory(string()),
  parallelism: mandatory(notNegative),
  completions: notNegative,
  isIndexed: mandatory(boolean()),
  /** Without it, only indexes have limits. */
  backoffLimit: notNegative,
  backoffLimitPerIndex: notNegative,
  maxFailedIndexes: notNegative,
  failureRules: mandatory(list(failureRule)),
  activeDeadlineSeconds: notNegative,
});

export type JobMark = TypeOf<typeof readMark>;

/** The value of the annotation of its pods. */
export function jobMark(job: Job): string {
  const { template, parallelism, completions, isIndexed, backoffLimit, failureRules } = job;
  const { backoffLimitPerIndex, maxFailedIndexes, activeDeadlineSeconds } = job;
  return JSON.stringify({
    template: hashOf(template.pod),
    ...{ parallelism, completions, isIndexed, backoffLimitPerIndex, maxFailedIndexes, failureRules },
    ...{ activeDeadlineSeconds, backoffLimit: backoffLimit === Infinity ? undefined : backoffLimit },
  });
}

/** Undefined for pods of an earlier version, and for what is no mark. */
export function parseJobMark(text = ""): JobMark | undefined {
  try {
    const problems: unknown[] = [];
    const mark: JobMark | undefined = readMark(JSON.parse(text), "", problems as never);
    return problems.length === 0 ? mark : undefined;
  } catch {
    return undefined;
  }
}

/** The job with the numbers that it had then. */
export function jobOfMark(job: Job, mark: JobMark): Job {
  const { template: _, backoffLimit = Infinity, parallelism, isIndexed, failureRules, ...limits } = mark;
  const { completions, backoffLimitPerIndex, maxFailedIndexes, activeDeadlineSeconds } = limits;
  return {
    ...{ ...job, parallelism, isIndexed, failureRules, backoffLimit },
    ...{ completions, backoffLimitPerIndex, maxFailedIndexes, activeDeadlineSeconds },
  };
}

/** The fields that are others than then, although a Job of Kubernetes cannot change them. */
export function changedForever(job: Job, mark: JobMark): readonly string[] {
  const then = jobOfMark(job, mark);
  // As many pods at a time as indexes: both may change together.
  const isElastic = [job, then].every((one) => one.isIndexed && one.completions === one.parallelism);
  const changes: readonly (readonly [string, boolean])[] = [
    ["template", hashOf(job.template.pod) !== mark.template],
    ["completions", job.completions !== then.completions && !isElastic],
    ["completionMode", job.isIndexed !== then.isIndexed],
    ["backoffLimitPerIndex", job.backoffLimitPerIndex !== then.backoffLimitPerIndex],
    ["podFailurePolicy", !isDeepStrictEqual(job.failureRules, then.failureRules)],
  ];
  return changes.filter(([, isChanged]) => isChanged).map(([field]) => field);
}
