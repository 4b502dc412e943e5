/** Collected objects → workloads: pods of replicas, jobs, claims. References are followed. */
import { ShimError } from "../../lib/errors.js";
import { checkPod } from "./check-pod.js";
import { hostPortConflicts, nodePortConflicts } from "./check-ports.js";
import { type Collection, type Item, below } from "./collect.js";
import type { PlacedProblem } from "./documents.js";
import { indexObjects } from "./index-objects.js";
import { makeCronJob, makeJob } from "./make-job.js";
import { keyOf, makePod, manifestHash } from "./make-pod.js";
import { makeService } from "./make-service.js";
import { statefulPods } from "./make-stateful-set.js";
import type { Pod } from "./pod-schema.js";
import { resolveObjects } from "./references.js";
import type { Manifest, Owner, UpdateStrategy } from "./manifest.js";
import { type Problem, malformed } from "./schema.js";
import { checkSelector } from "./selector.js";
import { daemonSetUpdate, deploymentUpdate } from "./update-strategy.js";
import type { ReadTemplate, Selector } from "./workload-schema.js";
import type { Claim, CronJob, Job, ObjectKey, PodTemplate, Workloads } from "./workloads.js";

/** `--replicas`: for all workloads, and by name. */
export interface ReplicaCounts {
  readonly all?: number | undefined;
  readonly byName?: ReadonlyMap<string, number>;
}

export interface ExpandOptions {
  readonly replicas?: ReplicaCounts;
  readonly schedule?: boolean;
}

/** The problems are those of the collection, and those of what objects say about each other. */
export function expandWorkloads(
  collection: Collection,
  options: ExpandOptions,
): { readonly workloads: Omit<Workloads, "notices">; readonly problems: readonly PlacedProblem[] } {
  const { items } = collection;
  const pods: MadePod[] = [];
  const jobs: Job[] = [];
  const withoutPods: (Owner & ObjectKey)[] = [];
  const cronJobs: CronJob[] = [];
  const objects = indexObjects(items);
  const claims: Claim[] = [...objects.claims];
  const counts = replicaCounts(options.replicas);
  const report = (item: Item<unknown>, problems: readonly Problem[]): void =>
    collection.report(item.document, below(item.document.path, problems));

  /** The template with its objects; undefined when it has errors, which are reported. */
  const templateOf = (
    kind: string,
    item: Item<unknown>,
    template: ReadTemplate,
    at = "spec.template",
    claimed: ReadonlySet<string> = new Set(),
  ): PodTemplate | undefined => {
    const { namespace, name, document, line } = item;
    const { labels, annotations } = template.metadata ?? {};
    const pod: Pod = objects.withAccount({
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        name,
        namespace,
        ...(labels === undefined ? {} : { labels }),
        ...(annotations === undefined ? {} : { annotations }),
      },
      spec: template.spec,
    });
    const problems = [...checkPod(pod)];
    const found = resolveObjects(pod, objects.of(namespace, claimed), problems);
    report(item, below(at, problems));
    const owner = { kind, name };
    return { source: document.source, line, namespace, owner, pod, objects: found };
  };

  for (const item of items.Pod) {
    const { document, value } = item;
    const { name, namespace, uid, labels, annotations } = value.metadata;
    const pod = objects.withAccount({
      apiVersion: value.apiVersion,
      kind: value.kind,
      metadata: withoutUndefined({ name, namespace, uid, labels, annotations }),
      spec: value.spec,
    });
    const problems: Problem[] = [];
    const found = resolveObjects(pod, objects.of(item.namespace), problems);
    report(item, problems);
    const manifest = {
      source: document.source,
      key: keyOf(pod.metadata),
      pod,
      hash: manifestHash(pod, found),
      objects: found,
    };
    pods.push({ item, manifest });
  }

  const replicated = (
    kind: string,
    item: Item<{ readonly spec: { readonly replicas?: number; readonly template: ReadTemplate } }>,
    selector: Selector,
    count: number,
    updateOf: (template: PodTemplate, problems: Problem[]) => UpdateStrategy | undefined = () => undefined,
  ): void => {
    const { spec } = item.value;
    const template = templateOf(kind, item, spec.template);
    report(item, [
      ...checkSelector(selector, spec.template.metadata?.labels ?? {}),
      ...mustRestart(kind, spec.template),
    ]);
    if (template === undefined) return;
    if (count === 0) withoutPods.push({ ...template.owner, namespace: item.namespace });
    const problems: Problem[] = [];
    const update = updateOf(template, problems);
    report(item, problems);
    const staysBy = update?.type === "OnDelete" ? { staysBy: "updateStrategy OnDelete" } : {};
    for (let number = 0; number < count; number += 1) {
      const manifest = makePod(template, { name: `${item.name}-${number}` });
      pods.push({ item, manifest: update === undefined ? manifest : { ...manifest, update, ...staysBy } });
    }
  };
  for (const item of items.Deployment) {
    const { spec } = item.value;
    const count = counts.of(item.name, spec.replicas);
    replicated("Deployment", item, spec.selector, count, (template, problems) =>
      deploymentUpdate(spec, template, { claims: objects.claims, replicas: count }, problems),
    );
  }
  for (const item of items.ReplicaSet) {
    const { selector, replicas } = item.value.spec;
    replicated("ReplicaSet", item, selector, counts.of(item.name, replicas));
  }
  for (const item of items.ReplicationController) {
    const { selector, replicas, template } = item.value.spec;
    const matchLabels = selector ?? template.metadata?.labels ?? {};
    replicated("ReplicationController", item, { matchLabels }, counts.of(item.name, replicas));
  }
  for (const item of items.DaemonSet) {
    const { spec } = item.value;
    replicated("DaemonSet", item, spec.selector, 1, (template) =>
      daemonSetUpdate(spec, template, objects.claims),
    );
  }

  for (const item of items.StatefulSet) {
    const { spec } = item.value;
    report(item, [
      ...checkSelector(spec.selector, spec.template.metadata?.labels ?? {}),
      ...mustRestart("StatefulSet", spec.template),
    ]);
    const count = counts.of(item.name, spec.replicas);
    if (count === 0) withoutPods.push({ kind: "StatefulSet", namespace: item.namespace, name: item.name });
    const claimed = new Set((spec.volumeClaimTemplates ?? []).map(({ metadata }) => metadata.name));
    const made = statefulPods(item, count, (readTemplate) =>
      templateOf("StatefulSet", item, readTemplate, "spec.template", claimed),
    );
    pods.push(...made.pods.map((manifest) => ({ item, manifest })));
    claims.push(...made.claims);
  }

  for (const item of items.Job) {
    const { spec } = item.value;
    const template = templateOf("Job", item, spec.template);
    if (template === undefined) continue;
    const problems: Problem[] = [];
    jobs.push(makeJob(item, spec, template, "spec", problems));
    report(item, problems);
  }
  for (const item of items.CronJob) {
    const { spec } = item.value;
    const at = "spec.jobTemplate.spec";
    const template = templateOf("CronJob", item, spec.jobTemplate.spec.template, `${at}.template`);
    if (template === undefined) continue;
    const problems: Problem[] = [];
    const job = makeJob(item, spec.jobTemplate.spec, template, at, problems);
    if (options.schedule === true) cronJobs.push(makeCronJob(item, job));
    else if (spec.suspend === true) {
      // What it has started before goes on, as in a cluster.
      withoutPods.push({ kind: "CronJob", namespace: item.namespace, name: item.name });
    } else {
      const reason = "the job runs once, now (--schedule runs it by its schedule)";
      problems.push({ path: "spec.schedule", reason, kind: "passedOver" });
      jobs.push(job);
    }
    report(item, problems);
  }

  const services = items.Service.map((item) => {
    const problems: Problem[] = [];
    const service = makeService(item, problems);
    report(item, problems);
    return service;
  });

  pods.sort((left, right) => left.item.order - right.item.order);
  checkPodNames(pods, jobs, report);
  const made = withoutPortConflicts(pods, report);
  for (const { index, other, reason } of nodePortConflicts(services)) {
    const item = items.Service[index];
    const first = items.Service[other];
    if (item === undefined || first === undefined) continue;
    report(item, [malformed("spec.ports", `${reason} is that of the service ${first.name}, too`)]);
  }
  counts.finish();
  const workloads = {
    pods: made.map(({ manifest }) => manifest),
    jobs,
    cronJobs,
    services,
    claims,
    withoutPods,
  };
  return { workloads, problems: inOrder(collection) };
}

interface MadePod {
  readonly item: Item<unknown>;
  readonly manifest: Manifest;
}

/** The pods that one host has ports for. For a port of two workloads it is an error. */
function withoutPortConflicts(
  pods: readonly MadePod[],
  report: (item: Item<unknown>, problems: readonly Problem[]) => void,
): readonly MadePod[] {
  const conflicts = hostPortConflicts(pods.map(({ manifest }) => manifest));
  const dropped = new Map<MadePod, string>();
  for (const { index, other, reason } of conflicts) {
    const later = pods[index];
    const earlier = pods[other];
    if (later === undefined || earlier === undefined) continue;
    if (later.item === earlier.item) dropped.set(later, reason);
    else {
      const { namespace, name } = earlier.manifest.key;
      report(later.item, [malformed("spec", `${reason} is wanted by the pod ${namespace}/${name}, too`)]);
    }
  }
  const kept = pods.filter((pod) => !dropped.has(pod));
  for (const item of new Set([...dropped.keys()].map((pod) => pod.item))) {
    const all = pods.filter((pod) => pod.item === item).length;
    const some = kept.filter((pod) => pod.item === item).length;
    const port = [...dropped].find(([pod]) => pod.item === item)?.[1] ?? "";
    const reason = `${some} of ${all} pods can be made: every one wants ${port}`;
    report(item, [{ path: "spec.replicas", reason, kind: "passedOver" }]);
  }
  return kept;
}

/** Problems in the order of the documents. The order within a document stays. */
function inOrder({ problems }: Collection): readonly PlacedProblem[] {
  const sources = [...new Set(problems.map(({ source }) => source))];
  return sources.flatMap((source) => problems.filter((problem) => problem.source === source));
}

function mustRestart(kind: string, { spec }: ReadTemplate): readonly Problem[] {
  if (spec.restartPolicy === undefined || spec.restartPolicy === "Always") return [];
  return [malformed("spec.template.spec.restartPolicy", `must be Always for a ${kind}`)];
}

/** Two workloads of one name would make pods of one name. Pods of one uid would share their files. */
function checkPodNames(
  pods: readonly MadePod[],
  jobs: readonly Job[],
  report: (item: Item<unknown>, problems: readonly Problem[]) => void,
): void {
  const seen = new Map<string, MadePod>();
  const uids = new Map<string, Manifest>();
  const reported = new Set<Item<unknown>>();
  const podsOfJobs = jobs.map(({ namespace, name, source }) => ({
    pattern: new RegExp(`^${namespace}/${name.replaceAll(".", "\\.")}-\\d+(-\\d+)?$`),
    source,
  }));
  for (const made of pods) {
    const { key } = made.manifest;
    const pod = `${key.namespace}/${key.name}`;
    const other = seen.get(pod)?.manifest ?? podsOfJobs.find(({ pattern }) => pattern.test(pod));
    if (other !== undefined && !reported.has(made.item)) {
      reported.add(made.item);
      report(made.item, [malformed("metadata.name", `the pod ${pod} is also made for ${other.source}`)]);
    }
    seen.set(pod, made);
    const sharing = uids.get(key.uid);
    if (sharing !== undefined && other === undefined) {
      const { namespace, name } = sharing.key;
      report(made.item, [malformed("metadata.uid", `is also that of the pod ${namespace}/${name}`)]);
    }
    uids.set(key.uid, made.manifest);
  }
}

function replicaCounts({ all, byName = new Map() }: ReplicaCounts = {}): {
  of(name: string, declared: number | undefined): number;
  finish(): void;
} {
  const unused = new Set(byName.keys());
  return {
    of: (name, declared) => {
      unused.delete(name);
      return byName.get(name) ?? all ?? declared ?? 1;
    },
    finish: () => {
      const [name] = unused;
      if (name === undefined) return;
      throw new ShimError("invalid", `--replicas ${name}=N: no workload with replicas has this name`);
    },
  };
}

/** Fields with the value undefined are left out, as exact optional fields want it. */
function withoutUndefined<T extends object>(value: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  const entries = Object.entries(value).filter(([, entry]) => entry !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]: Exclude<T[K], undefined> };
}
