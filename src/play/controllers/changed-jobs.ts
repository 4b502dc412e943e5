/** Refuses Jobs that have pods of another template, as an API server does. */
import type { PodSandbox } from "../../domain/cri.js";
import { ShimError } from "../../lib/errors.js";
import { changedForever, parseJobMark } from "../manifests/job-mark.js";
import { nameOf } from "../manifests/manifest.js";
import type { Job } from "../manifests/workloads.js";
import { jobNameLabel, playJobAnnotation } from "../pod-config/cri-config.js";

/** `listed`: all sandboxes of the server. Throws `precondition`. */
export function refuseChangedJobs(jobs: readonly Job[], listed: readonly PodSandbox[]): void {
  const lines = jobs.flatMap((job) => {
    const own = listed.filter(
      ({ metadata, labels }) => metadata?.namespace === job.namespace && labels[jobNameLabel] === job.name,
    );
    const marks = own.map(({ annotations }) => parseJobMark(annotations[playJobAnnotation]));
    const fields = new Set(marks.flatMap((mark) => (mark === undefined ? [] : changedForever(job, mark))));
    // What a CronJob without --schedule runs is made anew.
    if (fields.size === 0 || job.template.owner.kind !== "Job") return [];
    const { source, line } = job;
    const place = line === undefined ? source : `${source}, line ${line}`;
    const what = `spec.${[...fields].join(", spec.")}: Job ${nameOf(job)} has pods, and cannot change`;
    return [`  ${place}: ${what}; remove it first, by play --down`];
  });
  if (lines.length > 0) throw new ShimError("precondition", `nothing was started:\n${lines.join("\n")}`);
}
