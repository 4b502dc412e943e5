/** Manifests: YAML text with any number of documents → workloads, or one error that lists all problems. */
import { ShimError } from "../../lib/errors.js";
import { Collection, hasErrors, readKind } from "./collect.js";
import { type Document, type ManifestFile, type PlacedProblem, documentsOf } from "./documents.js";
import { type ReplicaCounts, expandWorkloads } from "./expand-workloads.js";
import { keyOf } from "./make-pod.js";
import { withGeneratedName } from "./metadata-schema.js";
import { readObjectName } from "./pod-schema.js";
import type { Problem } from "./schema.js";
import type { Removal, Workloads } from "./workloads.js";

// The other rooms of play import these types from here.
export type { Manifest, ObjectData, Owner, PodKey, PodObjects, SecretData } from "./manifest.js";

export interface ReadOptions {
  readonly replicas?: ReplicaCounts;
  /** CronJobs run by their schedule instead of once. */
  readonly schedule?: boolean;
  /** Volumes of storage systems become local volumes. */
  readonly localVolumes?: boolean;
  /** What is passed over is an error. */
  readonly strict?: boolean;
}

/** What `files` ask for, in order. Throws one ShimError for all that is wrong or missing. */
export async function readWorkloads(
  files: readonly ManifestFile[],
  options: ReadOptions = {},
): Promise<Workloads> {
  const { strict = false, localVolumes = false } = options;
  const collection = await collect(files, { localVolumes });
  const { workloads, problems } = expandWorkloads(collection, options);
  const isError = ({ kind }: Problem): boolean => strict || kind !== "passedOver";
  if (problems.some(isError)) throw problemsError(problems.filter(isError));
  if (Object.values(workloads).every(({ length }) => length === 0)) {
    const passed = problems.map((problem) => `\n${lineFor(problem)}`).join("");
    throw new ShimError("invalid", `no pod in ${namesOf(files)}${passed}`);
  }
  return { ...workloads, notices: problems.map(({ object = "", ...problem }) => ({ ...problem, object })) };
}

async function collect(
  files: readonly ManifestFile[],
  options: { readonly localVolumes: boolean },
): Promise<Collection> {
  const { documents, problems } = await allDocuments(files);
  const collection = new Collection(problems);
  for (const document of documents) collection.add(document, options);
  return collection;
}

async function allDocuments(
  files: readonly ManifestFile[],
): Promise<{ readonly documents: readonly Document[]; readonly problems: readonly PlacedProblem[] }> {
  const documents: Document[] = [];
  const problems: PlacedProblem[] = [];
  for (const file of files) documents.push(...(await documentsOf(file, problems)));
  return { documents, problems };
}

/** What `--down` removes: only kinds and names are read, so that everything can be removed. */
export async function readRemoval(files: readonly ManifestFile[]): Promise<Removal> {
  const { documents, problems } = await allDocuments(files);
  const isReal = ({ kind }: Problem): boolean => kind === "malformed";
  const all: PlacedProblem[] = problems.filter(isReal);
  const removal = { pods: [], owners: [], services: [], claims: [] } as {
    -readonly [K in keyof Removal]: Removal[K][number][];
  };
  for (const document of documents) {
    const { source, path, lineOf } = document;
    const own: Problem[] = [];
    const kind = readKind(document, own);
    const wanted =
      kind !== undefined && kind !== "ConfigMap" && kind !== "Secret" && kind !== "ServiceAccount";
    const name = wanted ? readObjectName(withGeneratedName(document.value), path, own) : undefined;
    const real = own.filter(isReal);
    all.push(...real.map((problem) => ({ ...problem, source, line: lineOf(problem.path) })));
    if (name === undefined || hasErrors(real)) continue;
    const key = keyOf(name);
    const object = { namespace: key.namespace, name: key.name };
    if (kind === "Pod") removal.pods.push({ source, key });
    else if (kind === "Service") removal.services.push(object);
    else if (kind === "PersistentVolumeClaim") removal.claims.push(object);
    else if (kind !== undefined) removal.owners.push({ kind, ...object, source, line: lineOf(path) });
  }
  if (all.length > 0) throw problemsError(all);
  if (documents.length === 0) throw new ShimError("invalid", `no object in ${namesOf(files)}`);
  return removal;
}

function namesOf(files: readonly ManifestFile[]): string {
  return files.map(({ name }) => name).join(", ");
}

/** One error for all problems, in the order of the documents. */
export function problemsError(problems: readonly PlacedProblem[]): ShimError {
  const count = problems.length === 1 ? "1 problem" : `${problems.length} problems`;
  return new ShimError(
    problems.some(({ kind }) => kind === "malformed") ? "invalid" : "unsupported",
    `nothing was started: ${count} in the manifests:\n${problems.map(lineFor).join("\n")}`,
  );
}

/** `  web.yaml, document 2, line 12: spec.volumes[0].nfs: not honoured` */
function lineFor({ source, line, path, reason, kind }: PlacedProblem): string {
  const place = line === undefined ? source : `${source}, line ${line}`;
  const field = path === "" ? "" : `${path}: `;
  return `  ${place}: ${field}${kind === "passedOver" ? "passed over: " : ""}${reason}`;
}

export type { ManifestFile };
