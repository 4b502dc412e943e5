/** What a workload needs beside itself: Services that select it, and the objects that it refers to. */
import { dirname } from "node:path";
import { stringify } from "yaml";
import { podSpecOf } from "./stand-in.mjs";

/** @typedef {import("./read-workloads.mjs").Workload} Workload */
/** @typedef {import("./read-workloads.mjs").Found} Found */
/** @typedef {import("./read-workloads.mjs").Value} Value */

/** The members of a reference, by the member of the pod that has it: kind and where the name is. */
const references = /** @type {const} */ ({
  configMap: "ConfigMap",
  configMapRef: "ConfigMap",
  configMapKeyRef: "ConfigMap",
  secret: "Secret",
  secretRef: "Secret",
  secretKeyRef: "Secret",
  persistentVolumeClaim: "PersistentVolumeClaim",
});

/**
 * Adds the keys that each object must have.
 * @param {unknown} part
 * @param {Map<string, Set<string>>} wanted by "KIND NAME"
 */
function collect(part, wanted) {
  if (!(part instanceof Object)) return;
  for (const [member, value] of Object.entries(part)) {
    const kind = references[/** @type {keyof typeof references} */ (member)];
    const name = value?.name ?? value?.secretName ?? value?.claimName;
    if (kind !== undefined && typeof name === "string" && value.optional !== true) {
      const keys = wanted.get(`${kind} ${name}`) ?? new Set();
      for (const { key } of [value, ...(value.items ?? [])]) if (key !== undefined) keys.add(key);
      wanted.set(`${kind} ${name}`, keys);
    }
    collect(value, wanted);
  }
}

/** @param {string} kind @param {string} name @param {string | undefined} namespace @param {Set<string>} keys */
function make(kind, name, namespace, keys) {
  const spec = { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Mi" } } };
  const values = Object.fromEntries([...keys].map((key) => [key, "c3RhbmQtaW4="]));
  return stringify({
    ...{ apiVersion: "v1", kind, metadata: { name, ...(namespace !== undefined && { namespace }) } },
    ...(kind === "PersistentVolumeClaim" ? { spec } : { data: values }),
  });
}

/** The number of directories that two paths share, the nearer the more. @param {string} a @param {string} b */
function nearness(a, b) {
  const [first, second] = [dirname(a).split("/"), dirname(b).split("/")];
  const different = first.findIndex((name, at) => name !== second[at]);
  return different < 0 ? first.length : different;
}

/**
 * @param {Workload} workload
 * @param {readonly Found[]} objects
 * @returns {{ services: number, made: string[], text: string[] }} `made`: what no file has, with the keys that the workload names
 */
export function companionsOf(workload, objects) {
  const { object, path } = workload;
  const namespace = object["metadata"]?.namespace;
  const labels = (object["kind"] === "Pod" ? object : object["spec"].template)?.metadata?.labels ?? {};
  const services = objects.filter(
    (other) =>
      other.object["kind"] === "Service" &&
      dirname(other.path) === dirname(path) &&
      (other.object["metadata"]?.namespace ?? namespace) === namespace &&
      Object.entries(other.object["spec"]?.selector ?? { "": "" }).every(
        ([key, value]) => labels[key] === value,
      ),
  );
  const wanted = new Map();
  collect(podSpecOf(object), wanted);
  for (const { metadata } of object["spec"].volumeClaimTemplates ?? []) {
    wanted.delete(`PersistentVolumeClaim ${metadata?.name}`);
  }
  const made = [];
  const text = [
    ...new Map(services.map(({ object: one, node }) => [one["metadata"]?.name, node])).values(),
  ].map(String);
  for (const [reference, keys] of wanted) {
    const [kind = "", name = ""] = reference.split(" ");
    const [found] = objects
      .filter(
        (other) =>
          other.object["kind"] === kind &&
          other.object["metadata"]?.name === name &&
          (other.object["metadata"]?.namespace ?? namespace) === namespace &&
          [...keys].every((key) =>
            ["data", "stringData", "binaryData"].some((member) => other.object[member]?.[key] !== undefined),
          ),
      )
      .sort((a, b) => nearness(b.path, path) - nearness(a.path, path));
    if (found === undefined) made.push(reference);
    text.push(found === undefined ? make(kind, name, namespace, keys) : String(found.node));
  }
  return { services: services.length, made, text };
}
