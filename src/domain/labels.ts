/** Docker labels of sandboxes and containers: the exact strings of dockershim and cri-dockerd. */

export const typeLabel = "io.kubernetes.docker.type";
export const sandboxType = "podsandbox";
export const containerType = "container";
export const containerNameLabel = "io.kubernetes.container.name";
/** Value of `containerNameLabel` on every sandbox. */
export const sandboxContainerName = "POD";
export const sandboxIdLabel = "io.kubernetes.sandbox.id";
export const logPathLabel = "io.kubernetes.container.logpath";
/** Which mounts of a container are image volumes: see image-mounts.ts. */
export const imageMountsLabel = "dockershim.image-mounts";
/** The name of a container's image as the kubelet says it beside the image's id. */
export const imageNameLabel = "dockershim.image-name";
/** Label of the containers that keep an image for its volume: the id of the image. */
export const pinnedImageLabel = "dockershim.image-volume.image";
/** JSON list of those Docker labels that begin with `annotationPrefix` and are labels of the request. */
const prefixedLabelsLabel = "dockershim.prefixed-labels";
/**
 * JSON: the sandbox's id, and the keys of all Docker labels that the request or this program gave a sandbox
 * or container. It tells them from labels that Docker adds from the image. An image can have this label, too,
 * but not with the id of a sandbox that does not exist yet.
 */
export const madeKeysLabel = "dockershim.label-keys";
/** CRI annotations become Docker labels with this prefix: Docker has no annotations that all engines keep. */
export const annotationPrefix = "annotation.";

/** An annotation that the kubelet sets on every container, and on no sandbox: seconds, as decimal text. */
export const gracePeriodAnnotation = "io.kubernetes.pod.terminationGracePeriod";
/** An annotation that the kubelet sets on every container: the attempt once more. */
export const restartCountLabel = `${annotationPrefix}io.kubernetes.container.restartCount`;
/** Labels that the kubelet sets on every pod and container. */
export const podNameLabel = "io.kubernetes.pod.name";
export const podNamespaceLabel = "io.kubernetes.pod.namespace";
export const podUidLabel = "io.kubernetes.pod.uid";

export type Labels = Readonly<Record<string, string>>;

/**
 * CRI labels and annotations merged into Docker labels; annotations win over labels, `own` over both. A label
 * `annotation.x` is what Docker has for the annotation `x`, too: of both in one pod, the label is lost, as
 * with dockershim.
 */
export function toDockerLabels(labels: Labels, annotations: Labels, own: Labels): Labels {
  const merged: Record<string, string> = { ...labels };
  for (const [key, value] of Object.entries(annotations)) merged[annotationPrefix + key] = value;
  const prefixed = Object.keys(labels).filter(
    (key) =>
      key.startsWith(annotationPrefix) && !Object.hasOwn(annotations, key.slice(annotationPrefix.length)),
  );
  if (prefixed.length > 0) merged[prefixedLabelsLabel] = JSON.stringify(prefixed);
  const all = { ...merged, ...own };
  const made: MadeKeys = { sandbox: own[sandboxIdLabel] ?? "", keys: Object.keys(all) };
  return { ...all, [madeKeysLabel]: JSON.stringify(made) };
}

interface MadeKeys {
  /** Empty for a sandbox itself. */
  readonly sandbox: string;
  readonly keys: readonly string[];
}

/** Whether they are those of a sandbox or container of a pod. This program's helpers have an empty type. */
export function hasPodType(docker: Labels): boolean {
  const type = docker[typeLabel];
  return type === sandboxType || type === containerType;
}

/** Labels of this program alone: on a container of dockershim or cri-dockerd they come from the image. */
const unsharedLabels: readonly string[] = [
  imageMountsLabel,
  imageNameLabel,
  prefixedLabelsLabel,
  madeKeysLabel,
];

/**
 * Labels that are kept of a container whose labels are too large: this program needs them to know its pod and
 * type, and the kubelet to neither restart it nor stop it in another way.
 */
export const essentialLabels: readonly string[] = [
  typeLabel,
  containerNameLabel,
  sandboxIdLabel,
  logPathLabel,
  ...unsharedLabels,
  podNameLabel,
  podNamespaceLabel,
  podUidLabel,
  pinnedImageLabel,
  ...[
    "container.hash",
    "container.restartCount",
    "container.terminationMessagePath",
    "container.terminationMessagePolicy",
    "container.preStopHandler",
    "pod.deletionGracePeriod",
    "pod.terminationGracePeriod",
  ].map((name) => `${annotationPrefix}io.kubernetes.${name}`),
];

/** Labels that CRI clients neither set nor see. */
export const ownLabels: readonly string[] = [typeLabel, sandboxIdLabel, logPathLabel, ...unsharedLabels];

/**
 * The labels of a container without those of its image. For a container that this program did not create
 * these are unknown: it keeps all labels but those that only this program writes.
 */
export function madeLabels(docker: Labels): Labels {
  const keys = madeKeys(docker);
  const isMade = (key: string): boolean =>
    // The list itself stays: by it, this program is known to have made the container.
    keys === undefined ? !unsharedLabels.includes(key) : key === madeKeysLabel || keys.has(key);
  return Object.fromEntries(Object.entries(docker).filter(([key]) => isMade(key)));
}

/** Whether this program created the sandbox or container, not dockershim or cri-dockerd. */
export function isMadeHere(docker: Labels): boolean {
  return madeKeys(docker) !== undefined;
}

function madeKeys(docker: Labels): ReadonlySet<string> | undefined {
  // Helper containers have no list of keys: theirs would come from the image.
  if (!hasPodType(docker)) return undefined;
  const sandbox = docker[typeLabel] === sandboxType ? "" : docker[sandboxIdLabel];
  const parsed = parseJson(docker[madeKeysLabel]);
  if (typeof parsed !== "object" || parsed === null) return undefined;
  const fields = new Map<string, unknown>(Object.entries(parsed));
  const keys = fields.get("keys");
  const isOurs = fields.get("sandbox") === sandbox && Array.isArray(keys) && keys.includes(typeLabel);
  return isOurs ? new Set(keys as string[]) : undefined;
}

/**
 * Docker labels split back into CRI labels and annotations, without the shim's own keys. A label that begins
 * with `annotation.` comes back as an annotation when dockershim or cri-dockerd wrote it, as it did there.
 */
export function fromDockerLabels(docker: Labels): { readonly labels: Labels; readonly annotations: Labels } {
  const labels: Record<string, string> = {};
  const annotations: Record<string, string> = {};
  const prefixed = prefixedLabels(docker);
  for (const [key, value] of Object.entries(docker)) {
    if (ownLabels.includes(key)) continue;
    if (key === containerNameLabel && docker[typeLabel] === sandboxType) continue;
    if (key.startsWith(annotationPrefix) && !prefixed.has(key))
      annotations[key.slice(annotationPrefix.length)] = value;
    else labels[key] = value;
  }
  return { labels, annotations };
}

function prefixedLabels(docker: Labels): ReadonlySet<unknown> {
  const parsed = parseJson(docker[prefixedLabelsLabel]);
  return new Set(Array.isArray(parsed) ? (parsed as unknown[]) : []);
}

/** Undefined for text that is not JSON. */
function parseJson(text: string | undefined): unknown {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    // A label of another program.
    return undefined;
  }
}

/** A container by its Docker name, without the leading slash, and its labels. */
interface NamedContainer {
  readonly name: string;
  readonly labels: Labels;
}

/**
 * Whether a container may have its pod labels from its image: Docker adds an image's labels to each container
 * of it. Containers of pods have names as dockershim made them, unless an administrator renames one, so that
 * only the images of containers with other names must be inspected.
 */
export function mayInheritPodType({ name, labels }: NamedContainer): boolean {
  return hasPodType(labels) && !name.startsWith("k8s_");
}

/**
 * Whether a container is part of a pod only by the labels of its image. A renamed container of a pod, made of
 * such an image, is taken for one, too: the two cannot be told apart.
 */
export function inheritsPodType(
  container: NamedContainer,
  image: { readonly labels: Labels } | undefined,
): boolean {
  return mayInheritPodType(container) && image?.labels[typeLabel] === container.labels[typeLabel];
}
