/** Pods from templates: names, uids and what a workload's controller adds to each pod. */
import { createHash } from "node:crypto";
import { hashOf } from "./hash-of.js";
import { jobMark } from "./job-mark.js";
import type { Container, Pod } from "./pod-schema.js";
import type { Manifest, ObjectData, PodKey, PodObjects } from "./manifest.js";
import type { Job, PodTemplate } from "./workloads.js";

export interface PodAdditions {
  readonly name: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  /** In place of the template's. */
  readonly hostname?: string;
  /** Set in every container that does not set it. */
  readonly variables?: Readonly<Record<string, string>>;
}

export function makePod(template: PodTemplate, additions: PodAdditions): Manifest {
  const { namespace, source, owner, objects, pod } = template;
  const { name, labels, annotations, hostname, variables } = additions;
  const { spec, metadata } = pod;
  const made: Pod = {
    ...pod,
    metadata: {
      ...metadata,
      name,
      namespace,
      labels: { ...metadata.labels, ...labels },
      annotations: { ...metadata.annotations, ...annotations },
    },
    spec: {
      ...spec,
      ...(hostname === undefined ? {} : { hostname }),
      ...(variables === undefined
        ? {}
        : {
            containers: withVariables(spec.containers, variables),
            initContainers: withVariables(spec.initContainers ?? [], variables),
          }),
    },
  };
  return { source, key: keyOf(made.metadata), pod: made, hash: manifestHash(made, objects), owner, objects };
}

/** The pod of a job. Names do not depend on the clock, so that a second play finds them. */
export function makeJobPod(
  job: Job,
  { index, attempt }: { readonly index?: number; readonly attempt: number },
): Manifest {
  const name =
    index === undefined
      ? `${job.name}-${attempt}`
      : `${job.name}-${index}${attempt === 0 ? "" : `-${attempt}`}`;
  const common = { "batch.kubernetes.io/job-name": job.name, "job-name": job.name };
  const completion = { "batch.kubernetes.io/job-completion-index": String(index) };
  const additions =
    index === undefined
      ? { name, labels: common }
      : {
          name,
          labels: { ...common, ...completion },
          annotations: completion,
          hostname: `${job.name}-${index}`,
          variables: { JOB_COMPLETION_INDEX: String(index) },
        };
  return { ...makePod(job.template, additions), jobMark: jobMark(job) };
}

/** What a pod of that name was made for; undefined for a name that `makeJobPod` does not give. */
export function jobPodOf(
  job: Job,
  name: string,
): { readonly index?: number; readonly attempt: number } | undefined {
  if (!name.startsWith(`${job.name}-`)) return undefined;
  const numbers = name.slice(job.name.length + 1).split("-");
  if (!numbers.every((text) => /^(0|[1-9]\d{0,8})$/.test(text))) return undefined;
  const [first = 0, second] = numbers.map(Number);
  if (!job.isIndexed) return numbers.length === 1 ? { attempt: first } : undefined;
  return numbers.length <= 2 ? { index: first, attempt: second ?? 0 } : undefined;
}

function withVariables(
  containers: readonly Container[],
  variables: Readonly<Record<string, string>>,
): readonly Container[] {
  return containers.map((container) => {
    const own = container.env ?? [];
    const missing = Object.entries(variables).filter(([name]) => !own.some((one) => one.name === name));
    return { ...container, env: [...own, ...missing.map(([name, value]) => ({ name, value }))] };
  });
}

export function keyOf(metadata: {
  readonly name: string;
  readonly namespace?: string | undefined;
  readonly uid?: string | undefined;
}): PodKey {
  const { name, namespace = "default" } = metadata;
  return { name, namespace, uid: metadata.uid ?? derivedUid(namespace, name) };
}

/** A UUID of version 8, by the pod's name alone, so that a second `play` and `play --down` find it. */
export function derivedUid(namespace: string, name: string): string {
  const digest = createHash("sha256").update(`dockershim play\0${namespace}\0${name}`).digest("hex");
  const variant = ((Number.parseInt(digest.slice(16, 17), 16) & 0x3) | 0x8).toString(16);
  return [
    digest.slice(0, 8),
    digest.slice(8, 12),
    `8${digest.slice(13, 16)}`,
    `${variant}${digest.slice(17, 20)}`,
    digest.slice(20, 32),
  ].join("-");
}

/** SHA-256; the order of keys does not matter. Also a change of an object that the pod refers to gives another hash. */
export function manifestHash(pod: Pod, { configMaps, secrets }: PodObjects): string {
  const texts = (data: ObjectData): readonly unknown[] =>
    Object.entries(data).map(([key, value]) => [key, value.toString("base64")]);
  return hashOf({
    pod,
    configMaps: [...configMaps].map(([name, data]) => [name, texts(data)]),
    secrets: [...secrets].map(([name, { type, data }]) => [name, type, texts(data)]),
  });
}
