/** The volumes of a pod on the engine's host. */
import type { Manifest } from "../manifests/read-manifests.js";
import type { NodeFacts } from "../pod-config/cri-config.js";
import type { MountedFiles } from "./mounted-files.js";
import type { Directories } from "../pod-config/pod-paths.js";
import { volumePreparations } from "../pod-config/volumes.js";

export interface PrepareVolumesDeps {
  readonly mounted: Pick<MountedFiles, "prepareVolume">;
  readonly node: NodeFacts;
  readonly directories: Directories;
}

/** Makes the volumes, as the kubelet before the sandbox. Can be repeated. Throws `notFound` for an object. */
export async function prepareVolumes(
  manifest: Manifest,
  { mounted, node, directories }: PrepareVolumesDeps,
): Promise<void> {
  // All are planned before the first is made.
  const volumes = volumePreparations({ manifest, node, podIps: [] }, directories);
  for (const volume of volumes) await mounted.prepareVolume(volume);
}
