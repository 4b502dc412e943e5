/** Container names in Docker: `k8s_<container or POD>_<pod>_<namespace>_<uid>_<attempt>[_<random>]`, as dockershim made them. */
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

export function sandboxName(pod: PodIdentity): string {
  return [prefix, sandboxContainerName, pod.name, pod.namespace, pod.uid, String(pod.attempt)].join(
    separator,
  );
}

export function containerName(pod: PodIdentity, container: ContainerIdentity): string {
  return [prefix, container.name, pod.name, pod.namespace, pod.uid, String(container.attempt)].join(
    separator,
  );
}

/** The name to fall back to when the proper one is taken by something that cannot be removed; `random` is a uint32. */
export function alternativeName(name: string, random: number): string {
  return name + separator + (random >>> 0).toString(16).padStart(8, "0");
}

/** The six fields of a name (a leading slash is ignored), or undefined when the shim's ancestors did not make it. */
export function parseName(
  name: string,
):
  | { readonly container: string; readonly pod: Omit<PodIdentity, "attempt">; readonly attempt: number }
  | undefined {
  const fields = name.replace(/^\//, "").split(separator);
  if (fields.length !== 6 && fields.length !== 7) return undefined;
  const [first, container = "", pod = "", namespace = "", uid = "", attempt = ""] = fields;
  if (first !== prefix || !/^\d{1,10}$/.test(attempt) || Number(attempt) > 0xffff_ffff) return undefined;
  return { container, pod: { name: pod, namespace, uid }, attempt: Number(attempt) };
}
