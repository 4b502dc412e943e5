/** Manifests: YAML text with any number of documents → Pods, or one error that lists all problems. */
import { createHash } from "node:crypto";
import { messageOf, ShimError } from "../../shim/lib/errors.js";
import { checkPod } from "./check-pod.js";
import type { Pod } from "./pod-schema.js";
import { readPod, readPodName } from "./pod-schema.js";
import type { Problem } from "./schema.js";
import { isObject, join } from "./schema.js";

/** What identifies a pod on the node. */
export interface PodKey {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** The data of a ConfigMap or of a Secret, decoded. */
export type ObjectData = Readonly<Record<string, Buffer>>;

/** The objects of the pod's namespace that the pod refers to. */
export interface PodObjects {
  readonly configMaps: ReadonlyMap<string, ObjectData>;
  /** Also those of imagePullSecrets. Never shown. */
  readonly secrets: ReadonlyMap<string, SecretData>;
}

export interface SecretData {
  readonly type: string;
  readonly data: ObjectData;
}

/** The workload that a pod was made for. */
export interface Owner {
  /** `Deployment` */
  readonly kind: string;
  readonly name: string;
}

/** A pod to play. */
export interface Manifest {
  /** `examples/web.yaml, document 2` */
  readonly source: string;
  readonly key: PodKey;
  readonly pod: Pod;
  /** SHA-256 of the content; the order of keys does not matter. */
  readonly hash: string;
  /** None for a Pod of its own. */
  readonly owner?: Owner;
  readonly objects: PodObjects;
}

export interface ManifestFile {
  /** As the user wrote it. */
  readonly name: string;
  readonly text: string;
}

/** The pods of `files`, in order. Throws one ShimError for all fields that are malformed or not honoured. */
export async function readManifests(files: readonly ManifestFile[]): Promise<readonly Manifest[]> {
  return read(files, (value, path, problems) => {
    const pod = readPod(value, path, problems);
    if (pod === undefined || problems.length > 0) return undefined;
    problems.push(...checkPod(pod).map((problem) => ({ ...problem, path: underPath(path, problem.path) })));
    return { key: keyOf(pod.metadata), pod, hash: hashOf(value), objects: noObjects };
  });
}

/** Only the keys of the pods of `files`, for their removal. Ignores all other fields. */
export async function readPodKeys(
  files: readonly ManifestFile[],
): Promise<readonly { readonly source: string; readonly key: PodKey }[]> {
  return read(files, (value, path, problems) => {
    const name = readPodName(value, path, problems);
    return name === undefined || problems.length > 0 ? undefined : { key: keyOf(name) };
  });
}

const noObjects: PodObjects = { configMaps: new Map(), secrets: new Map() };

type ReadDocument<T> = (value: unknown, path: string, problems: Problem[]) => T | undefined;

async function read<T extends { readonly key: PodKey }>(
  files: readonly ManifestFile[],
  readDocument: ReadDocument<T>,
): Promise<readonly (T & { readonly source: string })[]> {
  const found: (T & { readonly source: string })[] = [];
  const problems: (Problem & { readonly source: string })[] = [];
  const seen = new Map<string, string>();
  for (const file of files) {
    for (const { value, source, path } of await documentsOf(file)) {
      const own: Problem[] = [];
      const manifest = isPodV1(value, path, own) ? readDocument(value, path, own) : undefined;
      problems.push(...own.map((problem) => ({ ...problem, source })));
      if (manifest === undefined) continue;
      const { namespace, name } = manifest.key;
      const other = seen.get(`${namespace}/${name}`);
      if (other !== undefined) {
        const reason = `pod "${namespace}/${name}" is also in ${other}`;
        problems.push({ source, path: join(path, "metadata"), reason, kind: "malformed" });
      }
      seen.set(`${namespace}/${name}`, source);
      found.push({ ...manifest, source });
    }
  }
  if (problems.length > 0) throw problemsError(problems);
  if (found.length === 0)
    throw new ShimError("invalid", `no pod in ${files.map(({ name }) => name).join(", ")}`);
  return found;
}

interface Document {
  readonly value: unknown;
  readonly source: string;
  /** Path in the document: empty, or `items[2]` of a List. */
  readonly path: string;
}

async function documentsOf(file: ManifestFile): Promise<readonly Document[]> {
  const { parseAllDocuments } = await import("../../shim/lib/yaml.js");
  const parsed = parseAllDocuments(file.text, { merge: true, stringKeys: true });
  const documents: Document[] = [];
  // The library returns an empty list for a text without a document.
  const list = Array.isArray(parsed) ? parsed : [];
  list.forEach((document, index) => {
    const source = list.length === 1 ? file.name : `${file.name}, document ${index + 1}`;
    const [error] = document.errors;
    if (error !== undefined)
      throw new ShimError("invalid", `read ${source}: ${error.message}`, {}, { cause: error });
    let value: unknown;
    try {
      value = document.toJS({ maxAliasCount: 100 });
    } catch (cause) {
      throw new ShimError("invalid", `read ${source}: ${messageOf(cause)}`, {}, { cause });
    }
    if (value === null || value === undefined) return;
    documents.push(...(listItems(value, source) ?? [{ value, source, path: "" }]));
  });
  return documents;
}

/** The items of a `v1 List`, as documents; undefined when `value` is none. */
function listItems(value: unknown, source: string): readonly Document[] | undefined {
  if (!isObject(value) || value["apiVersion"] !== "v1") return undefined;
  if (value["kind"] !== "List" && value["kind"] !== "PodList") return undefined;
  const { items } = value;
  if (!Array.isArray(items)) throw new ShimError("invalid", `read ${source}: items must be a list`);
  return items.map((item: unknown, at) => ({ value: item, source, path: `items[${at}]` }));
}

function isPodV1(value: unknown, path: string, problems: Problem[]): boolean {
  if (!isObject(value)) {
    problems.push({ path, reason: "must be a mapping", kind: "malformed" });
    return false;
  }
  const { kind, apiVersion } = value;
  if (kind === "Pod" && apiVersion === "v1") return true;
  const named = [apiVersion, kind].map((part) => (typeof part === "string" ? part : "?")).join(" ");
  if (typeof kind === "string" && typeof apiVersion === "string") {
    const reason = `${JSON.stringify(named)} is not honoured yet: only "v1 Pod" (and a "v1 List" of them)`;
    problems.push({ path: join(path, "kind"), reason, kind: "notHonoured" });
  } else {
    problems.push({
      path: join(path, "kind"),
      reason: "kind and apiVersion must be given",
      kind: "malformed",
    });
  }
  return false;
}

/** One error for all problems, in the order of the documents. */
function problemsError(problems: readonly (Problem & { readonly source: string })[]): ShimError {
  const malformed = problems.some(({ kind }) => kind === "malformed");
  const count = problems.length === 1 ? "1 field" : `${problems.length} fields`;
  const verb = problems.length === 1 ? "is" : "are";
  const what = malformed ? `${verb} wrong or not honoured yet` : `${verb} not honoured yet`;
  const lines = problems.map(
    ({ source, path, reason }) => `  ${source}: ${path === "" ? "" : `${path}: `}${reason}`,
  );
  return new ShimError(
    malformed ? "invalid" : "unsupported",
    `nothing was started: ${count} of the manifests ${what}:\n${lines.join("\n")}`,
  );
}

function underPath(path: string, below: string): string {
  return path === "" ? below : `${path}.${below}`;
}

function keyOf(metadata: {
  readonly name: string;
  readonly namespace?: string | undefined;
  readonly uid?: string | undefined;
}): PodKey {
  const { name, namespace = "default" } = metadata;
  return { name, namespace, uid: metadata.uid ?? derivedUid(namespace, name) };
}

/**
 * The uid of a pod whose manifest has none: a UUID of version 8. It depends only on the pod's name, so that a
 * second `play`, and `play --down` after a change of the manifest, find the pod.
 */
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

function hashOf(value: unknown): string {
  return createHash("sha256")
    .update(JSON.stringify(sorted(value)))
    .digest("hex");
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isObject(value)) return value;
  const entries = Object.entries(value).filter(([, entry]) => entry !== null);
  entries.sort(([left], [right]) => (left < right ? -1 : 1));
  return entries.map(([key, entry]) => [key, sorted(entry)]);
}
