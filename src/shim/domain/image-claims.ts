/**
 * Images can carry the labels by which the containers of pods are known, and Docker gives them to whatever somebody runs of
 * such an image. Containers of pods have the names that dockershim gave them, until somebody renames one: so only those
 * with other names are worth a look at their image.
 */
import { hasPodType, type Labels, typeLabel } from "./labels.js";

interface Named {
  /** Docker's, without the leading slash. */
  readonly name: string;
  readonly labels: Labels;
}

/** Whether its image has to be asked. */
export function mayBeImageClaim({ name, labels }: Named): boolean {
  return hasPodType(labels) && !name.startsWith("k8s_");
}

/**
 * Whether it would be no part of a pod without what its image says. A container of a pod that is made of such an image
 * and then renamed cannot be told from one that somebody runs; it is let be.
 */
export function isImageClaim(container: Named, image: { readonly labels: Labels } | undefined): boolean {
  return mayBeImageClaim(container) && image?.labels[typeLabel] === container.labels[typeLabel];
}
