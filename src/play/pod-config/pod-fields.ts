/** Values of the downward API: fields and resources of a pod, as text. Pure. */
import { ShimError } from "../../lib/errors.js";
import { parseQuantity } from "../../domain/quantity.js";
import { serviceAccountOf } from "../manifests/manifest.js";
import type { Manifest } from "../manifests/read-manifests.js";
import type { NodeFacts } from "./cri-config.js";
import { amountOf, isHugePages, limitOf, type PodContainer, requestOf } from "./resources.js";

export interface PodFacts {
  readonly manifest: Manifest;
  readonly node: NodeFacts;
  /** None before the sandbox has a network. */
  readonly podIps: readonly string[];
}

/** The value of a `fieldRef`. Throws `invalid` for a field that Kubernetes does not offer. */
export function podField(fieldPath: string, { manifest, node, podIps }: PodFacts): string {
  const { key, pod } = manifest;
  const { labels = {}, annotations = {} } = pod.metadata;
  const subscript = /^metadata\.(labels|annotations)\['(.*)'\]$/s.exec(fieldPath);
  if (subscript !== null) {
    const map = subscript[1] === "labels" ? labels : annotations;
    const name = subscript[2] ?? "";
    return Object.hasOwn(map, name) ? (map[name] ?? "") : "";
  }
  const ips = pod.spec.hostNetwork === true ? node.addresses : podIps;
  switch (fieldPath) {
    case "metadata.name":
      return key.name;
    case "metadata.namespace":
      return key.namespace;
    case "metadata.uid":
      return key.uid;
    case "metadata.labels":
      return formatMap(labels);
    case "metadata.annotations":
      return formatMap(annotations);
    case "spec.nodeName":
      return node.name;
    case "spec.serviceAccountName":
      return serviceAccountOf(pod);
    case "status.hostIP":
      return node.addresses[0] ?? "";
    case "status.hostIPs":
      return node.addresses.join(",");
    case "status.podIP":
      return ips[0] ?? "";
    case "status.podIPs":
      return ips.join(",");
    default:
      throw new ShimError("invalid", `read field "${fieldPath}" of the pod: there is no such field`);
  }
}

/** `key="value"` lines, sorted by key, with the quotes and escapes of Go. */
function formatMap(map: Readonly<Record<string, string>>): string {
  const keys = Object.keys(map).sort();
  return keys.map((key) => `${key}=${quoted(map[key] ?? "")}`).join("\n");
}

const escapes: Readonly<Record<string, string>> = {
  '"': '\\"',
  "\\": "\\\\",
  "\u0007": "\\a",
  "\b": "\\b",
  "\f": "\\f",
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
  "\v": "\\v",
};

function quoted(text: string): string {
  const body = text.replace(
    // eslint-disable-next-line no-control-regex -- Go writes control characters as escapes.
    /["\\\u0000-\u001f\u007f]/g,
    (one) => escapes[one] ?? `\\x${one.charCodeAt(0).toString(16).padStart(2, "0")}`,
  );
  return `"${body}"`;
}

export interface ResourceField {
  readonly resource: string;
  readonly containerName?: string | undefined;
  readonly divisor?: string | undefined;
}

/** The value of a `resourceFieldRef`, rounded up; without a limit, that of the pod or of the node. */
export function resourceField(field: ResourceField, facts: PodFacts, own?: PodContainer): string {
  const { spec } = facts.manifest.pod;
  const action = `read resource "${field.resource}"`;
  const all = [...spec.containers, ...(spec.initContainers ?? [])];
  const { containerName = "" } = field;
  const container = containerName === "" ? own : all.find(({ name }) => name === containerName);
  if (container === undefined)
    throw new ShimError("invalid", `${action}: the pod has no container "${containerName}"`);
  const [, kind, name = ""] = /^(limits|requests)\.(.+)$/.exec(field.resource) ?? [];
  if (!["cpu", "memory", "ephemeral-storage"].includes(name) && !isHugePages(name))
    throw new ShimError("invalid", `${action}: there is no such resource`);
  const amount =
    kind === "requests"
      ? requestOf(container, name)
      : (limitOf(container, spec, name) ?? allocatable(facts.node, name));
  const perUnit = name === "cpu" ? 1000 : 1;
  const given = parseQuantity(field.divisor ?? "1", perUnit) ?? 0n;
  const divisor = given > 0n ? given : BigInt(perUnit);
  return String((amount + divisor - 1n) / divisor);
}

function allocatable(node: NodeFacts, name: string): bigint {
  return amountOf(node.allocatable[name], name) ?? 0n;
}
