/** The kinds that make pods: their own fields around the pod template. */
import { schedule as scheduleProblem, timeZone as timeZoneProblem } from "./cron-schedule.js";
import { claimMetadata, objectMetadata, templateMetadata } from "./metadata-schema.js";
import { dnsLabel, labelValue, qualifiedKey } from "./names.js";
import { claimSpec } from "./object-schema.js";
import { podTemplate } from "./pod-schema.js";
import { atLeastOne, byQualifiedKey, notNegative, exitCode } from "./readers.js";
import {
  type TypeOf,
  anything,
  boolean,
  list,
  mandatory,
  notHonoured,
  object,
  oneOf,
  onlyIf,
  passedOver,
  string,
  type Reader,
  malformed,
} from "./schema.js";

/** A rule of a podFailurePolicy. */
export const failureRule = object({
  action: mandatory(oneOf(["FailJob", "FailIndex", "Ignore", "Count"])),
  onExitCodes: object({
    containerName: string(),
    operator: mandatory(oneOf(["In", "NotIn"])),
    values: mandatory(list(exitCode)),
  }),
  onPodConditions: list(
    object({ type: mandatory(string(qualifiedKey)), status: oneOf(["True", "False", "Unknown"]) }),
  ),
});

/** How many pods of a changed workload are made anew at once: a number, or a percentage as text. */
const count: Reader<number | string> = (value, path, problems) => {
  if (typeof value === "number") return notNegative(value, path, problems);
  if (typeof value === "string" && /^\d{1,9}%$/.test(value)) return value;
  problems.push(malformed(path, 'must be a whole number, or a percentage such as "25%"'));
  return undefined;
};
const limits = object({ maxSurge: count, maxUnavailable: count });

export const deploymentStrategy = object({
  type: oneOf(["RollingUpdate", "Recreate"]),
  rollingUpdate: limits,
});
export const daemonSetStrategy = object({
  type: oneOf(["RollingUpdate", "OnDelete"]),
  rollingUpdate: limits,
});
export const statefulSetStrategy = object({
  type: oneOf(["RollingUpdate", "OnDelete"]),
  rollingUpdate: object({ partition: notNegative, maxUnavailable: count }),
});

const matchLabels = byQualifiedKey(string(labelValue));
const selector = object({
  matchLabels,
  matchExpressions: list(
    object({
      key: mandatory(string()),
      operator: mandatory(oneOf(["In", "NotIn", "Exists", "DoesNotExist"])),
      values: list(string(labelValue)),
    }),
  ),
});

const noRevisions = passedOver("play keeps no revisions to go back to");
const noMinimum = passedOver("a pod counts as soon as it is ready");
const untilDown = passedOver("play keeps what has ended until --down");

const header = <const V extends string, const K extends string>(apiVersion: V, kind: K) => ({
  apiVersion: mandatory(oneOf([apiVersion])),
  kind: mandatory(oneOf([kind])),
  metadata: mandatory(objectMetadata),
  status: anything(),
});
const template = mandatory(podTemplate);

export const deployment = object({
  ...header("apps/v1", "Deployment"),
  spec: mandatory(
    object({
      replicas: notNegative,
      selector: mandatory(selector),
      template,
      strategy: deploymentStrategy,
      minReadySeconds: notNegative,
      revisionHistoryLimit: noRevisions,
      progressDeadlineSeconds: notNegative,
      paused: passedOver("play always makes what the file says"),
    }),
  ),
});

export const replicaSet = object({
  ...header("apps/v1", "ReplicaSet"),
  spec: mandatory(
    object({ replicas: notNegative, selector: mandatory(selector), template, minReadySeconds: noMinimum }),
  ),
});

export const replicationController = object({
  ...header("v1", "ReplicationController"),
  spec: mandatory(
    object({ replicas: notNegative, selector: matchLabels, template, minReadySeconds: noMinimum }),
  ),
});

export const daemonSet = object({
  ...header("apps/v1", "DaemonSet"),
  spec: mandatory(
    object({
      selector: mandatory(selector),
      template,
      updateStrategy: daemonSetStrategy,
      minReadySeconds: notNegative,
      revisionHistoryLimit: noRevisions,
    }),
  ),
});

export const statefulSet = object({
  ...header("apps/v1", "StatefulSet"),
  spec: mandatory(
    object({
      replicas: notNegative,
      selector: mandatory(selector),
      template,
      serviceName: string(dnsLabel),
      volumeClaimTemplates: list(
        object({
          apiVersion: oneOf(["v1"]),
          kind: oneOf(["PersistentVolumeClaim"]),
          metadata: mandatory(claimMetadata),
          spec: mandatory(claimSpec),
          status: anything(),
        }),
      ),
      podManagementPolicy: oneOf(["OrderedReady", "Parallel"]),
      ordinals: object({ start: notNegative }),
      persistentVolumeClaimRetentionPolicy: passedOver("claims outlive their pods"),
      updateStrategy: statefulSetStrategy,
      minReadySeconds: notNegative,
      revisionHistoryLimit: noRevisions,
    }),
  ),
});

const ownSelector = passedOver("the pods of a job are known by its name");

const jobSpec = object({
  parallelism: notNegative,
  completions: notNegative,
  backoffLimit: notNegative,
  backoffLimitPerIndex: notNegative,
  maxFailedIndexes: notNegative,
  completionMode: oneOf(["NonIndexed", "Indexed"]),
  activeDeadlineSeconds: atLeastOne,
  suspend: boolean(),
  template,
  selector: ownSelector,
  manualSelector: ownSelector,
  ttlSecondsAfterFinished: untilDown,
  podReplacementPolicy: oneOf(["TerminatingOrFailed", "Failed"]),
  managedBy: onlyIf(
    (value) => value === "kubernetes.io/job-controller",
    "not honoured: another controller makes its pods",
  ),
  podFailurePolicy: object({ rules: mandatory(list(failureRule)) }),
  successPolicy: notHonoured("not honoured: use completions"),
});

export const job = object({ ...header("batch/v1", "Job"), spec: mandatory(jobSpec) });

export const cronJob = object({
  ...header("batch/v1", "CronJob"),
  spec: mandatory(
    object({
      schedule: mandatory(string(scheduleProblem)),
      timeZone: string(timeZoneProblem),
      concurrencyPolicy: oneOf(["Allow", "Forbid", "Replace"]),
      startingDeadlineSeconds: notNegative,
      successfulJobsHistoryLimit: notNegative,
      failedJobsHistoryLimit: notNegative,
      suspend: boolean(),
      jobTemplate: mandatory(object({ metadata: templateMetadata, spec: mandatory(jobSpec) })),
    }),
  ),
});

export type Selector = TypeOf<typeof selector>;
export type JobSpec = TypeOf<typeof jobSpec>;
export type StatefulSet = TypeOf<typeof statefulSet>;
export type ReadTemplate = TypeOf<typeof podTemplate>;
/** The rules of a podFailurePolicy. */
export type FailureRule = TypeOf<typeof failureRule>;
export type FailureAction = FailureRule["action"];
