/** Finds the objects of a directory, and the workloads among them: what has a pod template with containers. */
import { readdir, readFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { Document, isMap, parseAllDocuments } from "yaml";
import { containersOf, podSpecOf } from "./stand-in.mjs";

/** @typedef {Record<string, any>} Value a part of a manifest: any, because it may be of any kind, and is only looked through */
/**
 * @typedef {object} Workload
 * @property {string} path below the directory
 * @property {number} document counts from 1
 * @property {string} kind
 * @property {string} name
 * @property {Value} object
 * @property {Document} node the object, with its author's text
 */
/** @typedef {{ path: string, object: Value, node: Document }} Found */

const kinds = new Set([
  ...[
    "Pod",
    "Deployment",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "CronJob",
  ],
]);

/** The documents of a file, and the items of its lists. @param {string} path @param {string} text @returns {(Found & { document: number })[]} */
function objectsOf(path, text) {
  const documents = parseAllDocuments(text, { version: "1.1", uniqueKeys: false, logLevel: "error" });
  return [...documents].flatMap((node, index) => {
    if (!(node instanceof Document) || node.errors.length > 0) return [];
    const object = node.toJS();
    if (!(object instanceof Object) || typeof object.kind !== "string") return [];
    const found = { path, document: index + 1 };
    if (!object.kind.endsWith("List") || !Array.isArray(object.items)) return [{ ...found, object, node }];
    return object.items.flatMap((/** @type {unknown} */ item, /** @type {number} */ at) => {
      if (!(item instanceof Object)) return [];
      const own = new Document();
      // The type of contents is that of a document that was parsed.
      own.contents = /** @type {any} */ (isMap(node.contents) ? node.getIn(["items", at], true) : null);
      return { ...found, object: item, node: own };
    });
  });
}

/** @param {Value} object */
function isWorkload(object) {
  if (!kinds.has(object?.["kind"])) return false;
  try {
    return containersOf(podSpecOf(object)).some((container) => container instanceof Object);
  } catch {
    return false;
  }
}

/**
 * Equal workloads count once. Files that are no YAML, such as templates of Helm, are passed over.
 * @param {string} directory
 * @returns {Promise<{ objects: Found[], workloads: Workload[] }>}
 */
export async function readWorkloads(directory) {
  const names = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = names
    .filter((entry) => entry.isFile() && /\.(ya?ml|json)$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
  const objects = [];
  for (const file of files) {
    const text = await readFile(file, "utf8");
    if (text.length < 2_000_000 && !text.includes("{{"))
      objects.push(...objectsOf(relative(directory, file), text));
  }
  const seen = new Set();
  const workloads = objects.flatMap(({ path, document, object, node }) => {
    const text = JSON.stringify(object);
    if (!isWorkload(object) || seen.has(text)) return [];
    seen.add(text);
    const name = String(object["metadata"]?.name ?? object["metadata"]?.generateName ?? "");
    return [{ path, document, kind: object["kind"], name, object, node }];
  });
  return { objects, workloads };
}
