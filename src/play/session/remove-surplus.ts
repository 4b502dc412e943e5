import type { ManifestFile } from "../manifests/documents.js";
import { readDoomed } from "../manifests/read-manifests.js";
import type { ObjectKey } from "../manifests/workloads.js";
import { doomedPods, playDown } from "./remove-pods.js";

type Deps = Parameters<typeof playDown>[1];

/**
 * Removes pods of the files' workloads that had more replicas before. Those that cannot be removed are
 * reported and counted. `pods`: what the files ask for now.
 */
export async function removeSurplus(
  texts: readonly ManifestFile[],
  pods: readonly { readonly key: ObjectKey }[],
  deps: Deps,
  signal: AbortSignal,
): Promise<{ readonly failed: number }> {
  const { owners } = await readDoomed(texts);
  const counted = owners.filter(({ kind }) => kind !== "Job" && kind !== "CronJob");
  const there = await doomedPods({ pods: [], owners: counted }, deps.client, signal);
  const isWanted = ({ namespace, name }: ObjectKey): boolean =>
    pods.some(({ key }) => key.namespace === namespace && key.name === name);
  const surplus = there.filter(({ key }) => !isWanted(key));
  return playDown(surplus, deps, signal);
}
