/** Docker labels of sandboxes and containers: the exact strings of dockershim and cri-dockerd, so that nodes can change hands. */

export const typeLabel = "io.kubernetes.docker.type";
export const sandboxType = "podsandbox";
export const containerType = "container";
export const containerNameLabel = "io.kubernetes.container.name";
/** Value of `containerNameLabel` on every sandbox. */
export const sandboxContainerName = "POD";
export const sandboxIdLabel = "io.kubernetes.sandbox.id";
export const logPathLabel = "io.kubernetes.container.logpath";
/** CRI annotations become Docker labels with this prefix: Docker has no annotations that all engines keep. */
export const annotationPrefix = "annotation.";

/** Labels that the kubelet sets on every pod and container. */
export const podNameLabel = "io.kubernetes.pod.name";
export const podNamespaceLabel = "io.kubernetes.pod.namespace";
export const podUidLabel = "io.kubernetes.pod.uid";

export type Labels = Readonly<Record<string, string>>;

/** CRI labels and annotations merged into Docker labels; annotations win over labels, `own` over both. */
export function toDockerLabels(labels: Labels, annotations: Labels, own: Labels): Labels {
  const merged: Record<string, string> = { ...labels };
  for (const [key, value] of Object.entries(annotations)) merged[annotationPrefix + key] = value;
  return { ...merged, ...own };
}

/**
 * Docker labels split back into CRI labels and annotations, without the shim's own keys. A caller's label that begins
 * with `annotation.` comes back as an annotation, which is why requests with such labels are refused.
 */
export function fromDockerLabels(docker: Labels): { readonly labels: Labels; readonly annotations: Labels } {
  const labels: Record<string, string> = {};
  const annotations: Record<string, string> = {};
  for (const [key, value] of Object.entries(docker)) {
    if (key === typeLabel || key === logPathLabel || key === sandboxIdLabel) continue;
    if (key === containerNameLabel && docker[typeLabel] === sandboxType) continue;
    if (key.startsWith(annotationPrefix)) annotations[key.slice(annotationPrefix.length)] = value;
    else labels[key] = value;
  }
  return { labels, annotations };
}
