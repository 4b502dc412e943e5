/** Text of manifest files → documents, with the lines of their fields. */
import { messageOf } from "../../lib/errors.js";
import { type Problem, hasPlaceholder, isObject, renderFirst } from "./schema.js";
import { type Yaml, type YamlDocument, YamlValues, parseOptions } from "./yaml-values.js";

export interface ManifestFile {
  /** As the user wrote it. */
  readonly name: string;
  readonly text: string;
  /** Of objects that name none. Those of another namespace are refused. */
  readonly namespace?: string | undefined;
}

/** One object of a file: a document, or an item of a list. */
export interface Document {
  readonly value: unknown;
  /** `web.yaml, document 2` */
  readonly source: string;
  /** Path of the object in the document: empty, or `items[2]` of a List. */
  readonly path: string;
  /** Line of a field, or of its nearest parent that is there. */
  readonly lineOf: (path: string) => number | undefined;
}

export interface PlacedProblem extends Problem {
  readonly source: string;
  readonly line?: number | undefined;
  /** `Deployment web`, as far as it is known. */
  readonly object?: string;
}

/** Lists in lists are cut at this depth: it ends those that contain themselves. */
const maximumListDepth = 3;

export async function documentsOf(
  file: ManifestFile,
  problems: PlacedProblem[],
): Promise<readonly Document[]> {
  const yaml = await import("../../lib/yaml.js");
  const lines = new yaml.LineCounter();
  const parsed = yaml.parseAllDocuments(file.text, { ...parseOptions, lineCounter: lines });
  const documents: Document[] = [];
  // The library returns an empty list for a text without a document.
  const list = Array.isArray(parsed) ? parsed : [];
  const escapes = list
    .flatMap(({ errors }) => errors)
    .filter(({ code, pos: [at] }) => code === "BAD_DQ_ESCAPE" && file.text.startsWith("\\'", at));
  if (escapes.length > 0) {
    // kubectl reads \' in double quotes as '.
    const starts = [0, ...escapes.map(({ pos: [at] }) => at + 1)];
    const parts = starts.map((start, index) => file.text.slice(start, starts[index + 1]));
    const text = parts.map((part, index) => (index < escapes.length ? part.slice(0, -1) : part)).join("");
    return documentsOf({ ...file, text }, problems);
  }
  list.forEach((document, index) => {
    const source = list.length === 1 ? file.name : `${file.name}, document ${index + 1}`;
    const broken = (message: string, offset: number): void => {
      const [begin, , end] = document.range;
      const isTemplate = hasPlaceholder(file.text.slice(begin, end));
      const reason = isTemplate ? renderFirst : `is no valid YAML: ${message}`;
      const { line } = lines.linePos(offset);
      problems.push({ source, line, path: "", reason, kind: "malformed" });
    };
    const [error] = document.errors;
    if (error !== undefined) {
      broken(error.message, error.pos[0]);
      return;
    }
    const values = new YamlValues(document, yaml);
    let value: unknown;
    try {
      value = values.value();
    } catch (cause) {
      broken(messageOf(cause), values.offset);
      return;
    }
    if (value === null || value === undefined) return;
    for (const { path, offset } of values.replacements) {
      const reason = "is given twice: the last one counts, as with kubectl";
      const { line } = lines.linePos(offset);
      problems.push({ source, line, path, reason, kind: "passedOver" });
    }
    const lineOf = (path: string): number | undefined => {
      const offset = offsetOf(document, path, yaml);
      return offset === undefined ? undefined : lines.linePos(offset).line;
    };
    documents.push(...itemsOf({ value, source, path: "", lineOf }, problems, 0));
  });
  const { namespace } = file;
  return namespace === undefined
    ? documents
    : documents.map((document) => inNamespace(document, namespace, problems));
}

function inNamespace(document: Document, namespace: string, problems: PlacedProblem[]): Document {
  const { value, source, path, lineOf } = document;
  const metadata = isObject(value) ? (value["metadata"] ?? {}) : undefined;
  if (!isObject(value) || !isObject(metadata)) return document; // Refused elsewhere.
  const own = metadata["namespace"] ?? "";
  if (own === "") return { ...document, value: { ...value, metadata: { ...metadata, namespace } } };
  if (own !== namespace) {
    const place = path === "" ? "metadata.namespace" : `${path}.metadata.namespace`;
    const reason = `is ${JSON.stringify(own)}, and --namespace says ${JSON.stringify(namespace)}`;
    problems.push({ source, line: lineOf(place), path: place, reason, kind: "malformed" });
  }
  return document;
}

/** The items of a `v1 List` or of any other list of objects, or the document itself. */
function itemsOf(document: Document, problems: PlacedProblem[], depth: number): readonly Document[] {
  const { value, source, path, lineOf } = document;
  if (!isObject(value) || typeof value["kind"] !== "string" || !isListKind(value)) return [document];
  const { items } = value;
  const itemsPath = path === "" ? "items" : `${path}.items`;
  if (!Array.isArray(items) || depth === maximumListDepth) {
    const reason = Array.isArray(items) ? "has lists in lists in lists" : "must be a list";
    problems.push({ source, line: lineOf(path), path: itemsPath, reason, kind: "malformed" });
    return [];
  }
  const { kind, apiVersion } = value;
  return items.flatMap((item: unknown, at) => {
    // Items of a PodList and the like need no kind of their own.
    const own =
      kind === "List" || !isObject(item)
        ? item
        : { apiVersion, kind: kind.slice(0, -"List".length), ...item };
    return itemsOf({ value: own, source, path: `${itemsPath}[${at}]`, lineOf }, problems, depth + 1);
  });
}

function isListKind(
  value: Readonly<Record<string, unknown>>,
): value is Readonly<Record<string, unknown>> & { readonly kind: string } {
  const { kind } = value;
  if (kind === "List") return value["apiVersion"] === "v1";
  return typeof kind === "string" && kind.endsWith("List") && Array.isArray(value["items"]);
}

/** Offset of the key (or of the list item) at `path`, or of the nearest parent. */
function offsetOf(document: YamlDocument, path: string, yaml: Yaml): number | undefined {
  let node: unknown = document.contents;
  let offset = document.contents?.range?.[0];
  for (const part of path.matchAll(/\.?([A-Za-z_][\w-]*)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]/g)) {
    if (yaml.isAlias(node)) node = node.resolve(document);
    const [, name, index, quoted] = part;
    if (yaml.isSeq(node) && index !== undefined) {
      node = node.items[Number(index)];
      offset = rangeOf(node) ?? offset;
      continue;
    }
    const key = name ?? (quoted === undefined ? undefined : (JSON.parse(quoted) as unknown));
    const pair = yaml.isMap(node)
      ? node.items.find((one) => (yaml.isScalar(one.key) ? one.key.value : one.key) === key)
      : undefined;
    if (pair === undefined) break;
    offset = rangeOf(pair.key) ?? offset;
    node = pair.value;
  }
  return offset;
}

function rangeOf(node: unknown): number | undefined {
  const range: unknown = isObject(node) ? node["range"] : undefined;
  const first: unknown = Array.isArray(range) ? range[0] : undefined;
  return typeof first === "number" ? first : undefined;
}
