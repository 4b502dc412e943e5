/** Removes what play has made (`play --down`). */
import { messageOf } from "../../lib/errors.js";
import type { CriClient } from "../cri/client.js";
import { deletePod } from "../kubelet/delete-pod.js";
import type { PodAccess, Reports } from "../kubelet/kubelet-deps.js";
import { type PodKey, nameOf } from "../manifests/manifest.js";
import type { ManifestFile } from "../manifests/documents.js";
import { readRemoval } from "../manifests/read-manifests.js";
import type { ObjectKey, Removal } from "../manifests/workloads.js";
import { playHashAnnotation, playOwnerAnnotation } from "../pod-config/cri-config.js";

/** The pods of `removal`: its own, and all that play has made for its workloads. */
export async function podsToRemove(
  removal: Pick<Removal, "pods" | "owners">,
  client: Pick<CriClient, "listPodSandboxes">,
  signal: AbortSignal,
): Promise<readonly { readonly source: string; readonly key: PodKey }[]> {
  if (removal.owners.length === 0) return removal.pods;
  const sources = new Map(
    removal.owners.map(({ namespace, kind, name, source }) => [`${namespace} ${kind}/${name}`, source]),
  );
  const found = new Map(removal.pods.map((pod) => [nameOf(pod.key), pod]));
  for (const { metadata, annotations } of await client.listPodSandboxes({}, signal)) {
    const { namespace = "", name = "", uid = "" } = metadata ?? {};
    const source = sources.get(`${namespace} ${annotations[playOwnerAnnotation] ?? ""}`);
    const key = { namespace, name, uid };
    if (source !== undefined && annotations[playHashAnnotation] !== undefined)
      found.set(nameOf(key), { source, key });
  }
  return [...found.values()];
}

/** Removes the pods with the data of their volumes and their logs. Keeps pods of other programs. */
export async function removePods(
  pods: readonly { readonly source: string; readonly key: PodKey }[],
  deps: PodAccess & Reports,
  signal: AbortSignal,
): Promise<{ readonly failed: number }> {
  const failures = await Promise.all(
    pods.map(async ({ key }) => {
      const pod = nameOf(key);
      try {
        const { own, foreign } = await deletePod(key, { ...deps, event: () => undefined }, signal);
        if (foreign > 0) deps.report(`${pod}: not removed, because play did not make it`);
        else deps.report(own === 0 ? `${pod}: not there` : `${pod}: removed`);
        return 0;
      } catch (error) {
        if (signal.aborted) throw error;
        deps.report(`${pod}: cannot be removed: ${messageOf(error)}`);
        return 1;
      }
    }),
  );
  return { failed: failures.filter((count) => count > 0).length };
}

/**
 * Removes pods of the files' workloads that had more replicas before. Those that cannot be removed are
 * reported and counted. `pods`: what the files ask for now.
 */
export async function removeSurplus(
  texts: readonly ManifestFile[],
  pods: readonly { readonly key: ObjectKey }[],
  deps: PodAccess & Reports,
  signal: AbortSignal,
): Promise<{ readonly failed: number }> {
  const { owners } = await readRemoval(texts);
  const counted = owners.filter(({ kind }) => kind !== "Job" && kind !== "CronJob");
  const there = await podsToRemove({ pods: [], owners: counted }, deps.client, signal);
  const isWanted = ({ namespace, name }: ObjectKey): boolean =>
    pods.some(({ key }) => key.namespace === namespace && key.name === name);
  const surplus = there.filter(({ key }) => !isWanted(key));
  return removePods(surplus, deps, signal);
}
