/** Where the files of pods are that a play at another socket has made. */
import type { PodSandbox } from "../../domain/cri.js";
import { playHashAnnotation, playServerAnnotation } from "./cri-config.js";
import { type Directories, notePlace } from "./pod-paths.js";

/**
 * Sandboxes of play say where the files of their pods are. What was there before a node has changed its CRI server
 * goes on with them.
 */
export function notePlaces(
  directories: Directories,
  sandboxes: readonly Pick<PodSandbox, "metadata" | "annotations">[],
): void {
  for (const { metadata, annotations } of sandboxes)
    if (annotations[playHashAnnotation] !== undefined)
      notePlace(directories, metadata?.uid ?? "", annotations[playServerAnnotation]);
}
