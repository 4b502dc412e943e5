/** What a Job does next. The rules and numbers are those of Kubernetes' job controller. Pure. */
import { groupBy } from "../../lib/group-by.js";
import type { FailureAction } from "../manifests/workload-schema.js";
import type { Job } from "../manifests/workloads.js";

/** A pod of a job that exists, also one that has ended. The caller keeps ended pods until the job is removed. */
export interface JobPod {
  readonly name: string;
  /** The completion index, in an indexed job. */
  readonly index?: number;
  readonly attempt: number;
  readonly phase: "Pending" | "Running" | "Succeeded" | "Failed";
  /** Restarts of all its containers. */
  readonly restarts: number;
  /** Of a pod that has failed: what the podFailurePolicy makes of it. */
  readonly action?: FailureAction | undefined;
  /** Milliseconds; of a pod that has ended. */
  readonly finishedAt?: number;
}

/** What `makeJobPod` needs. */
export interface WantedPod {
  readonly index?: number;
  readonly attempt: number;
}

export interface JobDecision {
  readonly state: "running" | "complete" | "failed" | "suspended";
  /** Kubernetes' reason of a failure: BackoffLimitExceeded, DeadlineExceeded … */
  readonly reason?: string;
  readonly make: readonly WantedPod[];
  /** Names of running pods to delete. */
  readonly remove: readonly string[];
  /** Milliseconds: when to decide again, although no pod has changed. */
  readonly wakeAt?: number;
}

const backOffMs = 10_000;
const maximumBackOffMs = 600_000;

/** `startedAt`, `now`: milliseconds. A job that was resumed starts anew. */
export function decideJob(
  job: Job,
  pods: readonly JobPod[],
  { startedAt, now }: { readonly startedAt: number; readonly now: number },
): JobDecision {
  const active = pods.filter(isActive);
  const remove = active.map(({ name }) => name);
  if (pods.some(({ action }) => action === "FailJob"))
    return { state: "failed", reason: "PodFailurePolicy", make: [], remove };
  // Also of a queue of work that has a success: too many failures count before it.
  if (exceedsBackoffLimit(job, pods))
    return { state: "failed", reason: "BackoffLimitExceeded", make: [], remove };
  if (isComplete(job, pods)) return { state: "complete", make: [], remove };
  if (job.isSuspended) return { state: "suspended", make: [], remove };
  const reason = failureReason(job, pods, now - startedAt);
  if (reason !== undefined) return { state: "failed", reason, make: [], remove };

  const deadline =
    job.activeDeadlineSeconds === undefined ? Infinity : startedAt + job.activeDeadlineSeconds * 1000;
  const { wanted, surplus, retryAt } = job.isIndexed
    ? wantedIndexes(job, pods, now)
    : wantedPods(job, pods, now);
  const wakeAt = Math.min(deadline, retryAt);
  const decision = { state: "running", make: wanted, remove: surplus } as const;
  return wakeAt === Infinity ? decision : { ...decision, wakeAt };
}

interface Wanted {
  readonly wanted: readonly WantedPod[];
  readonly surplus: readonly string[];
  readonly retryAt: number;
}

function wantedPods(job: Job, pods: readonly JobPod[], now: number): Wanted {
  const active = pods.filter(isActive);
  const succeeded = pods.filter(({ phase }) => phase === "Succeeded").length;
  // The pods of a queue of work know when it is empty: after the first success no pod is added.
  const missing =
    job.completions === undefined ? (succeeded > 0 ? 0 : Infinity) : job.completions - succeeded;
  const count = Math.min(job.parallelism, Math.max(missing, 0));
  const isQueueEnding = job.completions === undefined && succeeded > 0;
  const surplus = isQueueEnding ? [] : newest(active, active.length - count);
  const lacking = count - active.length;
  const retryAt = lacking > 0 ? backOffUntil(pods) : Infinity;
  if (lacking <= 0 || retryAt > now)
    return { wanted: [], surplus, retryAt: lacking > 0 ? retryAt : Infinity };
  const first = nextAttempt(pods);
  const wanted = Array.from({ length: lacking }, (_, number) => ({ attempt: first + number }));
  return { wanted, surplus, retryAt: Infinity };
}

function wantedIndexes(job: Job, pods: readonly JobPod[], now: number): Wanted {
  const active = pods.filter(isActive);
  const byIndex = podsByIndex(pods);
  const wanted: WantedPod[] = [];
  let retryAt = Infinity;
  for (let index = 0; index < (job.completions ?? 0); index += 1) {
    if (active.length + wanted.length >= job.parallelism) break;
    const own = byIndex.get(index) ?? [];
    const isDone = own.some((pod) => isActive(pod) || pod.phase === "Succeeded");
    if (isDone || hasFailed(job, own)) continue;
    // Without a limit of its own, an index shares the back-off of the job.
    const until = backOffUntil(job.backoffLimitPerIndex === undefined ? pods : own);
    if (until > now) retryAt = Math.min(retryAt, until);
    else wanted.push({ index, attempt: nextAttempt(own) });
  }
  return { wanted, surplus: newest(active, active.length - job.parallelism), retryAt };
}

function isComplete(job: Job, pods: readonly JobPod[]): boolean {
  const succeeded = pods.filter(({ phase }) => phase === "Succeeded");
  if (job.isIndexed) return new Set(succeeded.map(({ index }) => index)).size >= (job.completions ?? 0);
  if (job.completions === undefined) return succeeded.length > 0 && !pods.some(isActive);
  return succeeded.length >= job.completions;
}

function failureReason(job: Job, pods: readonly JobPod[], runsMs: number): string | undefined {
  if (job.activeDeadlineSeconds !== undefined && runsMs >= job.activeDeadlineSeconds * 1000)
    return "DeadlineExceeded";
  if (!job.isIndexed || job.backoffLimitPerIndex === undefined) return undefined;
  const byIndex = [...podsByIndex(pods).values()];
  const failed = byIndex.filter((own) => hasFailed(job, own)).length;
  if (job.maxFailedIndexes !== undefined && failed > job.maxFailedIndexes) return "MaxFailedIndexesExceeded";
  const ended = byIndex.filter(
    (own) => hasFailed(job, own) || own.some(({ phase }) => phase === "Succeeded"),
  ).length;
  return failed > 0 && ended === (job.completions ?? 0) ? "FailedIndexes" : undefined;
}

function exceedsBackoffLimit({ backoffLimit, template }: Job, pods: readonly JobPod[]): boolean {
  if (pods.filter(countsAsFailure).length > backoffLimit) return true;
  if (template.pod.spec.restartPolicy !== "OnFailure") return false;
  const restarts = pods.filter(isActive).reduce((sum, pod) => sum + pod.restarts, 0);
  // A limit of 0 allows no restart; a limit of n ends the job at the restart number n.
  return restarts > 0 && restarts >= backoffLimit;
}

/** The indexes of an indexed job. */
function podsByIndex(pods: readonly JobPod[]): ReadonlyMap<number, readonly JobPod[]> {
  return groupBy(pods, ({ index = -1 }) => index);
}

/** Whether an index has failed for good. */
function hasFailed({ backoffLimitPerIndex }: Job, own: readonly JobPod[]): boolean {
  if (backoffLimitPerIndex === undefined) return false;
  if (own.some(({ action }) => action === "FailIndex")) return true;
  return own.filter(countsAsFailure).length > backoffLimitPerIndex;
}

/** Time before which no pod takes the place of a failed one: 10 s doubled with each failure in a row, 10 min. */
function backOffUntil(pods: readonly JobPod[]): number {
  const ended = pods.flatMap(({ phase, finishedAt }) =>
    finishedAt === undefined ? [] : [{ phase, finishedAt }],
  );
  const lastSuccess = Math.max(
    -Infinity,
    ...ended.filter(({ phase }) => phase === "Succeeded").map(({ finishedAt }) => finishedAt),
  );
  const failures = ended
    .filter(({ phase, finishedAt }) => phase === "Failed" && finishedAt > lastSuccess)
    .map(({ finishedAt }) => finishedAt);
  if (failures.length === 0) return -Infinity;
  return Math.max(...failures) + Math.min(backOffMs * 2 ** (failures.length - 1), maximumBackOffMs);
}

/** The back-off is longer also after those that do not count. */
function countsAsFailure({ phase, action }: JobPod): boolean {
  return phase === "Failed" && action !== "Ignore";
}

function isActive({ phase }: JobPod): boolean {
  return phase === "Pending" || phase === "Running";
}

function nextAttempt(pods: readonly JobPod[]): number {
  return Math.max(-1, ...pods.map(({ attempt }) => attempt)) + 1;
}

function newest(active: readonly JobPod[], count: number): readonly string[] {
  if (count <= 0) return [];
  return [...active]
    .sort((left, right) => right.attempt - left.attempt || (right.index ?? 0) - (left.index ?? 0))
    .slice(0, count)
    .map(({ name }) => name);
}
