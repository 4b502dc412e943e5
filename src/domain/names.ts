/**
 * Container names in Docker: `k8s_<container or POD>_<pod>_<namespace>_<uid>_<attempt>[_<random>]`, as
 * dockershim made them.
 *
 * Kubernetes allows no underscore in the four names, other clients of the CRI use it. A name with one in any
 * part is `k8s_<container or POD>_<pod>_<namespace>_<uid>_<attempt>_escaped[_<random>]`: in all four parts
 * `.` is written as `..` and `_` as `.-`. So no two containers share a name, and each name can be read back.
 * cri-dockerd ignores a seventh field and reads the escaped parts; a name with eight fields it does not list.
 */
import { sandboxContainerName } from "./labels.js";

export interface PodIdentity {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
  readonly attempt: number;
}

export interface ContainerIdentity {
  readonly name: string;
  readonly attempt: number;
}

const prefix = "k8s";
const separator = "_";
const escapedMark = "escaped";

export function sandboxName(pod: PodIdentity): string {
  return dockerName(sandboxContainerName, pod, pod.attempt);
}

export function containerName(pod: PodIdentity, container: ContainerIdentity): string {
  return dockerName(container.name, pod, container.attempt);
}

function dockerName(container: string, { name, namespace, uid }: PodIdentity, attempt: number): string {
  const parts = [container, name, namespace, uid];
  const isPlain = !parts.some((part) => part.includes(separator));
  const fields = isPlain
    ? [prefix, ...parts, String(attempt)]
    : [prefix, ...parts.map(escape), String(attempt), escapedMark];
  return fields.join(separator);
}

function escape(part: string): string {
  return part.replaceAll(".", "..").replaceAll(separator, ".-");
}

/** Undefined when `escape` did not make it. */
function unescape(part: string): string | undefined {
  if (!/^(?:[^.]|\.[.-])*$/.test(part)) return undefined;
  return part.replaceAll(/\.([.-])/g, (_pair, second) => (second === "-" ? separator : "."));
}

/** A name with a random suffix, for when a container that cannot be removed has `name`; `random` is a uint32. */
export function alternativeName(name: string, random: number): string {
  return name + separator + (random >>> 0).toString(16).padStart(8, "0");
}

/** Parses a name, with a leading slash or not; undefined for another form, and for underscores that are not escaped. */
export function parseName(
  name: string,
):
  | { readonly container: string; readonly pod: Omit<PodIdentity, "attempt">; readonly attempt: number }
  | undefined {
  const [first, container = "", pod = "", namespace = "", uid = "", attempt = "", ...rest] = name
    .replace(/^\//, "")
    .split(separator);
  if (first !== prefix || !/^\d{1,10}$/.test(attempt) || Number(attempt) > 0xffff_ffff) return undefined;
  const isEscaped = rest[0] === escapedMark;
  const [random, ...more] = isEscaped ? rest.slice(1) : rest;
  // Any other seventh field is due to an underscore in a part: the fields are wrong.
  if (more.length > 0 || (random !== undefined && !/^[0-9a-f]{8}$/.test(random))) return undefined;
  const parts = [container, pod, namespace, uid].map((part) => (isEscaped ? unescape(part) : part));
  const [ofContainer, ofPod, ofNamespace, ofUid] = parts;
  if (ofContainer === undefined || ofPod === undefined) return undefined;
  if (ofNamespace === undefined || ofUid === undefined) return undefined;
  return {
    container: ofContainer,
    pod: { name: ofPod, namespace: ofNamespace, uid: ofUid },
    attempt: Number(attempt),
  };
}
