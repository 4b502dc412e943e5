/** sizeLimit of emptyDir volumes on disk, which nothing stops from growing: a kubelet evicts the pod. */
import { parseQuantity } from "../../shim/domain/quantity.js";
import type { Manifest } from "../manifests/read-manifests.js";
import type { PlayFiles } from "./files.js";
import { type Directories, volumePath } from "./pod-files.js";

/** Why the pod must be evicted; undefined when no volume is too large. A kubelet looks every 10 s. */
export async function emptyDirExcess(
  { key, pod }: Pick<Manifest, "key" | "pod">,
  files: Pick<PlayFiles, "diskUsage">,
  directories: Directories,
): Promise<string | undefined> {
  for (const { name, emptyDir } of pod.spec.volumes ?? []) {
    const { sizeLimit, medium } = emptyDir ?? {};
    if (sizeLimit === undefined || medium === "Memory") continue; // The kernel limits those in memory.
    const limit = parseQuantity(sizeLimit, 1) ?? 0n;
    const used = await files.diskUsage(volumePath(directories, key, "empty-dir", name));
    if (limit > 0n && used > limit)
      return `emptyDir volume "${name}" takes ${used} bytes, more than its sizeLimit ${sizeLimit}`;
  }
  return undefined;
}
