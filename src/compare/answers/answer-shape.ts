/** Reads messages of answers: their members, what a list is matched by, and whom an answer is about. */

/** A message as it was decoded, or as it was read from JSON. */
export type Message = Readonly<Record<string, unknown>>;

export function isMessage(value: unknown): value is Message {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value below `names`, or undefined where one of them is missing. */
export function valueAt(message: unknown, ...names: readonly string[]): unknown {
  let value = message;
  for (const name of names) value = isMessage(value) ? value[name] : undefined;
  return value;
}

/** A text or number below `names` as text; empty where it is missing. */
export function textAt(message: unknown, ...names: readonly string[]): string {
  const value = valueAt(message, ...names);
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

/** Fields of type map: their keys are data. */
const maps = new Set(["labels", "annotations", "info", "unified"]);

export function isMap(field: string): boolean {
  return maps.has(field);
}

export interface ListRule {
  /** What an entry of both answers is matched by. */
  key(entry: unknown): string;
  /** Whose entry it is, where each is a pod, container or image of its own. */
  subject?(entry: unknown): string;
}

const byItself: ListRule = { key: (entry) => textAt({ entry }, "entry") };
const byName: ListRule = { key: (entry) => textAt(entry, "name") };
const byMountpoint: ListRule = { key: (entry) => textAt(entry, "fs_id", "mountpoint") };
const pods: ListRule = { key: idOf, subject: podSubject };
const containers: ListRule = { key: idOf, subject: containerSubject };

const lists: Readonly<Record<string, ListRule>> = {
  items: pods,
  pod_metrics: pods,
  containers,
  containers_statuses: containers,
  container_metrics: containers,
  images: { key: idOf, subject: imageSubject },
  // Pods or containers, which their ids distinguish well enough.
  stats: { key: idOf, subject: (entry) => (isPodStats(entry) ? podSubject(entry) : containerSubject(entry)) },
  // A metric repeats with other labels, such as the device.
  metrics: { key: (entry) => [textAt(entry, "name"), ...textsAt(entry, "label_values")].join(",") },
  descriptors: byName,
  interfaces: byName,
  runtime_handlers: byName,
  conditions: { key: (entry) => textAt(entry, "type") },
  mounts: { key: (entry) => textAt(entry, "container_path") },
  additional_ips: { key: (entry) => textAt(entry, "ip") },
  hugepage_limits: { key: (entry) => textAt(entry, "page_size") },
  image_filesystems: byMountpoint,
  container_filesystems: byMountpoint,
  repo_tags: byItself,
  repo_digests: byItself,
  supplemental_groups: byItself,
};

/** Undefined for lists whose order is a part of their meaning. */
export function listRule(field: string): ListRule | undefined {
  return Object.hasOwn(lists, field) ? lists[field] : undefined;
}

/** The pod, container or image of an answer about one; empty for others. */
export function subjectOfAnswer(rpc: string, answer: unknown): string {
  switch (rpc) {
    case "PodSandboxStatus":
      return podSubject(valueAt(answer, "status"));
    case "PodSandboxStats":
      return podSubject(valueAt(answer, "stats"));
    case "ContainerStatus":
      return containerSubject(valueAt(answer, "status"));
    case "ContainerStats":
      return containerSubject(valueAt(answer, "stats"));
    case "ImageStatus":
      return imageSubject(valueAt(answer, "image"));
    default:
      return "";
  }
}

/** `pod NAMESPACE/NAME ID`, with the first twelve digits of the id. Empty without an id. */
export function podSubject(pod: unknown): string {
  const metadata = valueAt(pod, "metadata") ?? valueAt(pod, "attributes", "metadata");
  const name = [textAt(metadata, "namespace"), textAt(metadata, "name")].filter(Boolean).join("/");
  return subject("pod", name, idOf(pod));
}

/** `container NAMESPACE/POD/NAME ID`; the pod is known from the labels of kubelets. */
export function containerSubject(container: unknown): string {
  const about = valueAt(container, "attributes") ?? container;
  const labels = valueAt(about, "labels");
  const name = [
    textAt(labels, "io.kubernetes.pod.namespace"),
    textAt(labels, "io.kubernetes.pod.name"),
    textAt(about, "metadata", "name"),
  ];
  return subject("container", name.filter(Boolean).join("/"), idOf(container));
}

/** `image NAME ID`: the first tag, else the first digest. */
export function imageSubject(image: unknown): string {
  const [name = ""] = [...textsAt(image, "repo_tags"), ...textsAt(image, "repo_digests")];
  return subject("image", name, idOf(image));
}

function subject(kind: string, name: string, id: string): string {
  if (id === "") return "";
  return [kind, name, id.replace(/^sha256:/, "").slice(0, 12)].filter(Boolean).join(" ");
}

function idOf(entry: unknown): string {
  return (
    textAt(entry, "id") ||
    textAt(entry, "attributes", "id") ||
    textAt(entry, "pod_sandbox_id") ||
    textAt(entry, "container_id")
  );
}

function isPodStats(entry: unknown): boolean {
  return valueAt(entry, "attributes", "metadata", "namespace") !== undefined;
}

export function textsAt(message: unknown, field: string): readonly string[] {
  const list = valueAt(message, field);
  return Array.isArray(list) ? list.map((entry: unknown) => textAt({ entry }, "entry")) : [];
}
