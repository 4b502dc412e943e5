/** Labels by which Docker Desktop and other tools show the containers of a pod as one group. */
import type { Labels } from "../../domain/labels.js";
import type { PodIdentity } from "../../domain/names.js";

/**
 * Compose's names of its project, here the pod, and of its service, here the container. `docker compose` leaves such
 * containers alone: it wants more labels. The labels are no labels of the CRI: `madeLabels` leaves them out.
 */
export function composeLabels(
  { namespace, name }: Pick<PodIdentity, "namespace" | "name">,
  container: string,
): Labels {
  return {
    // Names of projects have no dots.
    "com.docker.compose.project": `${namespace}_${name}`.replaceAll(".", "-"),
    "com.docker.compose.service": container,
  };
}
