/** Docker labels of sandboxes and containers: the exact strings of dockershim and cri-dockerd, so that nodes can change hands. */

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
/**
 * JSON list of those Docker labels of a sandbox that begin with `annotationPrefix` and are labels of the pod. Containers
 * have none: kubelets give them no labels of pods, and the label could come from the container's image.
 */
const prefixedLabelsLabel = "dockershim.prefixed-labels";
/** CRI annotations become Docker labels with this prefix: Docker has no annotations that all engines keep. */
export const annotationPrefix = "annotation.";

/** An annotation that the kubelet sets on every container: the attempt once more. */
export const restartCountLabel = `${annotationPrefix}io.kubernetes.container.restartCount`;
/** Labels that the kubelet sets on every pod and container. */
export const podNameLabel = "io.kubernetes.pod.name";
export const podNamespaceLabel = "io.kubernetes.pod.namespace";
export const podUidLabel = "io.kubernetes.pod.uid";

export type Labels = Readonly<Record<string, string>>;

/**
 * CRI labels and annotations merged into Docker labels; annotations win over labels, `own` over both. A label `annotation.x`
 * is what Docker has for the annotation `x`, too: of both in one pod, the label is lost, as with dockershim.
 */
export function toDockerLabels(labels: Labels, annotations: Labels, own: Labels): Labels {
  const merged: Record<string, string> = { ...labels };
  for (const [key, value] of Object.entries(annotations)) merged[annotationPrefix + key] = value;
  const prefixed = Object.keys(labels).filter(
    (key) =>
      key.startsWith(annotationPrefix) && !Object.hasOwn(annotations, key.slice(annotationPrefix.length)),
  );
  if (prefixed.length > 0 && own[typeLabel] === sandboxType)
    merged[prefixedLabelsLabel] = JSON.stringify(prefixed);
  return { ...merged, ...own };
}

/** Labels of containers that no CRI client set or sees. */
export const ownLabels: readonly string[] = [
  typeLabel,
  sandboxIdLabel,
  logPathLabel,
  imageMountsLabel,
  prefixedLabelsLabel,
];

/**
 * Docker labels split back into CRI labels and annotations, without the shim's own keys. A label that begins with
 * `annotation.` comes back as an annotation when it is a container's, or when dockershim or cri-dockerd wrote it, as it did there.
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
  const text = docker[prefixedLabelsLabel];
  if (text === undefined || docker[typeLabel] !== sandboxType) return new Set();
  try {
    const parsed: unknown = JSON.parse(text);
    return new Set(Array.isArray(parsed) ? (parsed as unknown[]) : []);
  } catch {
    // Not of this program's making.
    return new Set();
  }
}
