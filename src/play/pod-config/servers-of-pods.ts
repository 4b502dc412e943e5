/** Where the files of pods are that a play at another socket has made. */
import type { PodSandbox } from "../../domain/cri.js";
import { podUid } from "../manifests/names.js";
import { playHashAnnotation, playServerAnnotation } from "./cri-config.js";
import { type Directories, noteServerOfPod, podDirectory } from "./pod-paths.js";

/** Sandboxes of play say where the files of their pods are, also after a change of the CRI server. */
export async function noteServersOfPods(
  directories: Directories,
  sandboxes: readonly Pick<PodSandbox, "metadata" | "annotations">[],
  files: { exists(path: string): Promise<boolean> },
): Promise<void> {
  const { ofOtherServers, ...own } = directories;
  if (ofOtherServers === undefined) return;
  // Earlier versions wrote no annotation, also when this server had its own directory.
  const isOfEarlier = async (uid: string): Promise<boolean> =>
    own.server !== undefined && podUid(uid) === undefined && files.exists(podDirectory(own, { uid }));
  for (const { metadata, annotations } of sandboxes) {
    if (annotations[playHashAnnotation] === undefined) continue;
    const { uid = "" } = metadata ?? {};
    const server = annotations[playServerAnnotation];
    noteServerOfPod(directories, uid, server ?? ((await isOfEarlier(uid)) ? own.server : undefined));
  }
}
