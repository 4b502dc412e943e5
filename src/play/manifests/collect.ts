/** Documents → the objects in them, by kind. Each is checked alone; references are not yet followed. */
import { checkPod } from "./check-pod.js";
import type { Document, PlacedProblem } from "./documents.js";
import { readVersions, verdictOf } from "./kinds.js";
import { hashOf } from "./hash-of.js";
import { withGeneratedName } from "./metadata-schema.js";
import * as objects from "./object-schema.js";
import { readPod } from "./pod-schema.js";
import { type Problem, type TypeOf, isObject, join, malformed } from "./schema.js";
import { storageKinds } from "./volume-schema.js";
import * as workloads from "./workload-schema.js";

/** Readers by kind. The keys are those of `readVersions`. */
const readers = {
  Pod: readPod,
  Deployment: workloads.deployment,
  ReplicaSet: workloads.replicaSet,
  ReplicationController: workloads.replicationController,
  StatefulSet: workloads.statefulSet,
  DaemonSet: workloads.daemonSet,
  Job: workloads.job,
  CronJob: workloads.cronJob,
  ConfigMap: objects.configMap,
  Secret: objects.secret,
  PersistentVolumeClaim: objects.claim,
  Service: objects.service,
  ServiceAccount: objects.serviceAccount,
} as const;

export type ReadKind = keyof typeof readers;

type Values = { readonly [K in ReadKind]: TypeOf<(typeof readers)[K]> };

/** An object that was read, with its place. */
export interface Item<V> {
  readonly document: Document;
  readonly value: V;
  readonly namespace: string;
  readonly name: string;
  readonly line: number | undefined;
  /** Number of the object in the files. */
  readonly order: number;
  /** Claims that stand for volumes of storage systems. */
  readonly localClaims: readonly string[];
}

/** What objects that are made from an item tell of it. */
export function originOf({ document, line, namespace, name }: ItemPlace) {
  return { source: document.source, line, namespace, name };
}

export type ItemPlace = Pick<Item<unknown>, "document" | "line" | "namespace" | "name">;

export type Collected = { readonly [K in ReadKind]: Item<Values[K]>[] };

export interface CollectOptions {
  readonly localVolumes: boolean;
}

export class Collection {
  readonly items: Collected = {
    Pod: [],
    Deployment: [],
    ReplicaSet: [],
    ReplicationController: [],
    StatefulSet: [],
    DaemonSet: [],
    Job: [],
    CronJob: [],
    ConfigMap: [],
    Secret: [],
    PersistentVolumeClaim: [],
    Service: [],
    ServiceAccount: [],
  };
  readonly problems: PlacedProblem[];
  private readonly seen = new Map<string, Document>();

  constructor(problems: readonly PlacedProblem[]) {
    this.problems = [...problems];
  }

  add(document: Document, options: CollectOptions): void {
    const own: Problem[] = [];
    const kind = readKind(document, own);
    if (kind !== undefined) this.read(kind, document, options, own);
    this.report(document, own);
  }

  /** Adds problems of a document, with their lines. */
  report(document: Document, problems: readonly Problem[]): void {
    const { source, lineOf } = document;
    const object = nameOf(document);
    for (const problem of problems)
      this.problems.push({ ...problem, source, line: lineOf(problem.path), object });
  }

  private read(kind: ReadKind, document: Document, options: CollectOptions, own: Problem[]): void {
    const { path } = document;
    const before = own.length;
    const { value, localClaims } = options.localVolumes
      ? localized(kind, withGeneratedName(document.value), path, own)
      : { value: withGeneratedName(document.value), localClaims: [] };
    const result = readers[kind](value, path, own);
    if (result === undefined || hasErrors(own.slice(before))) return;
    const { name, namespace = "default" } = result.metadata;
    const key = `${kind} ${namespace}/${name}`;
    const other = this.seen.get(key);
    if (other !== undefined) {
      const line = other.lineOf(other.path);
      const place = line === undefined ? other.source : `${other.source}, line ${line}`;
      own.push(malformed(join(path, "metadata"), `${key} is also in ${place}`));
    }
    this.seen.set(key, document);
    const line = document.lineOf(path);
    // The reader of a kind gives the value of that kind, which the compiler cannot follow.
    (this.items[kind] as Item<Values[ReadKind]>[]).push({
      document,
      value: result,
      namespace,
      name,
      line,
      order: this.seen.size,
      localClaims,
    });
    if (result.kind === "Pod") own.push(...below(path, checkPod(result)));
  }
}

/** `problems` of an object that is at `path` of its document. */
export function below(path: string, problems: readonly Problem[]): readonly Problem[] {
  return problems.map((problem) => ({
    ...problem,
    path: path === "" ? problem.path : `${path}.${problem.path}`,
  }));
}

export function hasErrors(problems: readonly Problem[]): boolean {
  return problems.some(({ kind }) => kind !== "passedOver");
}

/** `Deployment web`, as far as it is known. */
export function nameOf({ value }: Document): string {
  const { kind, metadata } = isObject(value) ? value : {};
  const name = isObject(metadata) ? (metadata["name"] ?? metadata["generateName"]) : undefined;
  return [kind, name].filter((part) => typeof part === "string").join(" ");
}

export function readKind({ value, path }: Document, problems: Problem[]): ReadKind | undefined {
  if (!isObject(value)) {
    problems.push(malformed(path, "must be a mapping"));
    return undefined;
  }
  const { kind, apiVersion } = value;
  if (typeof kind !== "string" || typeof apiVersion !== "string") {
    problems.push(malformed(join(path, "kind"), "kind and apiVersion must be given"));
    return undefined;
  }
  if (isReadKind(kind) && readVersions[kind] === apiVersion) return kind;
  problems.push({ path: join(path, "kind"), ...verdictOf(apiVersion, kind) });
  return undefined;
}

function isReadKind(kind: string): kind is ReadKind {
  return Object.hasOwn(readers, kind);
}

/** Where the spec of the pod is, by kind. */
const specPaths: Readonly<Partial<Record<ReadKind, readonly string[]>>> = {
  Pod: ["spec"],
  CronJob: ["spec", "jobTemplate", "spec", "template", "spec"],
};
const templatePath = ["spec", "template", "spec"];

function localized(
  kind: ReadKind,
  value: unknown,
  path: string,
  problems: Problem[],
): { readonly value: unknown; readonly localClaims: readonly string[] } {
  const claims: string[] = [];
  const replace = (at: unknown, keys: readonly string[], below: string): unknown => {
    const [key, ...rest] = keys;
    if (key === undefined) {
      const local = withLocalVolumes(at, below, problems);
      claims.push(...local.claims);
      return local.spec;
    }
    if (!isObject(at) || at[key] === undefined) return at;
    return { ...at, [key]: replace(at[key], rest, join(below, key)) };
  };
  const replaced = replace(value, specPaths[kind] ?? templatePath, path);
  return { value: replaced, localClaims: claims };
}

/** The spec of a pod with claims in place of volumes of storage systems: one for each storage. */
function withLocalVolumes(
  spec: unknown,
  path: string,
  problems: Problem[],
): { readonly spec: unknown; readonly claims: readonly string[] } {
  if (!isObject(spec) || !Array.isArray(spec["volumes"])) return { spec, claims: [] };
  const claims: string[] = [];
  const volumes = spec["volumes"].map((volume: unknown, index) => {
    const kind = isObject(volume) ? storageKinds.find((one) => isObject(volume[one])) : undefined;
    if (kind === undefined || !isObject(volume)) return volume;
    const { [kind]: storage, ...rest } = volume;
    const claimName = `local-${hashOf({ [kind]: storage }).slice(0, 10)}`;
    const reason = `is a local volume, empty at first: claim ${claimName} (--local-volumes)`;
    problems.push({ path: `${path}.volumes[${index}].${kind}`, reason, kind: "passedOver" });
    claims.push(claimName);
    return { ...rest, persistentVolumeClaim: { claimName } };
  });
  return { spec: { ...spec, volumes }, claims };
}
